//! HTTP client for UFM, with credentials and deadlines.

use super::{UfmClientSettings, UfmLogin, tls};
use crate::{Error, SettingError};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::time::Duration;

/// Time limit for establishing the TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a whole request, including the connection and the response body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response body. A list of a hundred thousand members has about 10 MB.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

pub(super) struct UfmClient {
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    credentials: Option<HeaderValue>,
    pub(super) name: String,
    timeout: Duration,
}

pub(super) struct UfmResponse {
    pub(super) status: u16,
    pub(super) body: Value,
    /// The first 300 characters of the body, for messages.
    pub(super) text: String,
}

impl UfmResponse {
    /// Accepts every 2xx code, because UFM versions use different ones.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl UfmClient {
    pub(super) fn new(settings: &UfmClientSettings) -> Result<Self, SettingError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let credentials = match &settings.login {
            UfmLogin::Basic { user, password } => Some(BASE64.encode(format!("{user}:{password}"))),
            UfmLogin::Token(token) => Some(token.clone()),
            UfmLogin::Certificate { .. } => None,
        };
        let credentials = credentials.map(|text| HeaderValue::from_str(&format!("Basic {text}"))).transpose();
        let mut credentials = credentials.map_err(|_| SettingError::Value {
            name: "UFM_TOKEN",
            value: "(not shown)".to_owned(),
            expected: "text without control characters",
        })?;
        if let Some(value) = &mut credentials {
            value.set_sensitive(true);
        }
        let host = match settings.address.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => settings.address.clone(),
        };
        let server = format!("{}://{host}:{}", settings.schema, settings.port);
        Ok(Self {
            http: Http::builder(TokioExecutor::new()).pool_idle_timeout(Duration::from_secs(20)).build(https),
            base: format!("{server}{}", settings.path_prefix()),
            credentials,
            name: format!("ufm {server}"),
            timeout: REQUEST_TIMEOUT,
        })
    }

    pub(super) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends a request and waits for the response until the deadline.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<UfmResponse, Error> {
        self.request_within(self.timeout, method, path, body).await
    }

    /// Like [`Self::request`], with another deadline.
    pub(super) async fn request_within(
        &self,
        timeout: Duration,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<UfmResponse, Error> {
        let request = format!("{method} {path}");
        match tokio::time::timeout(timeout, self.send(method, path, body)).await {
            Ok(response) => response,
            Err(_) => Err(Error::Timeout { manager: self.name.clone(), request, timeout }),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<UfmResponse, Error> {
        let unreachable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Unreachable {
            manager: self.name.clone(),
            source,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::CONTENT_TYPE, "application/json; charset=utf-8");
        if let Some(credentials) = &self.credentials {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.body(Full::new(body)).map_err(|error| unreachable(error.into()))?;
        let response =
            self.http.request(request).await.map_err(|error| unreachable(error_chain(error).into()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES)
            .collect()
            .await
            .map_err(unreachable)?
            .to_bytes();
        let text: String = String::from_utf8_lossy(&body).trim().chars().take(300).collect();
        // Not every response is JSON. The caller checks the body where its content matters.
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(UfmResponse { status, body, text })
    }

    pub(super) fn rejected(&self, request: &str, response: &UfmResponse) -> Error {
        Error::Rejected {
            manager: self.name.clone(),
            request: request.to_owned(),
            status: response.status,
            body: response.text.clone(),
        }
    }

    pub(super) fn invalid_response(&self, request: &str, problem: impl ToString) -> Error {
        Error::InvalidResponse {
            manager: self.name.clone(),
            request: request.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// Formats the error with its causes, because the outermost error only says that the request failed.
fn error_chain(error: hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
