//! The HTTPS server that the API server calls.

use super::answer::{PATHS, answer};
use super::limits::{BodyBudget, ConnectionLimits};
use super::{context::WebhookContext, serving_certificate::ServingCertificate};
use crate::Error;
use ferroband_daemon::{catch_panic_async, error_chain};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::{Request, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{ServerConfig, crypto::ring};
use std::{convert::Infallible, net::Ipv6Addr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

/// Maximum number of requests that are answered at a time.
const MAX_REQUESTS: usize = 32;
/// Timeout of the TLS handshake, the request header and the body, and of a connection without a request.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the buffer of a connection. A body is passed on in parts of this size.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// Timeout of one answer, and of waiting until fewer than [`MAX_REQUESTS`] are handled. The API server waits as long
/// (`timeoutSeconds` of the webhook configuration).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a listening socket on all addresses of the pod.
pub fn listen(port: u16) -> Result<TcpListener, Error> {
    let failed = |source: std::io::Error| Error::Serve { port, source: Box::new(source) };
    // An IPv6 socket accepts IPv4 as well; the fallback is for nodes without IPv6.
    let listener = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| std::net::TcpListener::bind(("0.0.0.0", port)))
        .map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    TcpListener::from_std(listener).map_err(failed)
}

/// Serves requests until `stop` is triggered.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<ServingCertificate>,
    context: Arc<WebhookContext>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Serve { port: context.settings().webhook_port, source: Box::new(e) })?;
    let config = builder.with_no_client_auth().with_cert_resolver(certificate.clone());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let connections = Arc::new(ConnectionLimits::default());
    let handler = Arc::new(RequestHandler {
        certificate,
        context,
        requests: Semaphore::new(MAX_REQUESTS),
        bodies: BodyBudget::default(),
    });
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, source)) = accepted else {
            // The process may be out of file descriptors. Retry later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(permit) = connections.admit(source.ip()) else { continue };
        let (acceptor, handler, stop) = (acceptor.clone(), handler.clone(), stop.clone());
        tokio::spawn(async move {
            stop.run_until_cancelled(serve_connection(stream, acceptor, handler)).await;
            drop(permit);
        });
    }
    Ok(())
}

/// What a request needs.
struct RequestHandler {
    certificate: Arc<ServingCertificate>,
    context: Arc<WebhookContext>,
    /// One permit for each request that may be answered at the same time.
    requests: Semaphore,
    bodies: BodyBudget,
}

async fn serve_connection(stream: TcpStream, acceptor: TlsAcceptor, handler: Arc<RequestHandler>) {
    let Ok(Ok(stream)) = timeout(READ_TIMEOUT, acceptor.accept(stream)).await else {
        return debug!("TLS handshake with a webhook client failed");
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_buf_size(READ_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        debug!(error = %error_chain(&e), "connection of a webhook client failed");
    }
}

impl RequestHandler {
    async fn handle(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        if request.method() == Method::GET && path == "/healthz" {
            let ready = self.certificate.is_loaded() && self.context.is_ready();
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            return respond(status, String::new());
        }
        if request.method() != Method::POST || !PATHS.contains(&path.as_str()) {
            let text = format!("not found; use POST with {}", PATHS.join(", "));
            return respond(StatusCode::NOT_FOUND, text);
        }
        // While the caches are incomplete, the patch could be wrong. Return an error instead; the API server then
        // admits the object unchanged.
        if !self.context.is_ready() {
            let text = "the network caches are not synced yet";
            return respond(StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
        }
        // The body is read before a permit is acquired, so that a client that sends slowly keeps no other from being
        // answered.
        let Ok(Some(body)) = timeout(READ_TIMEOUT, self.bodies.read(request.into_body())).await else {
            let text = "the request body is incomplete or too large";
            return respond(StatusCode::BAD_REQUEST, text.to_owned());
        };
        let Ok(Ok(_permit)) = timeout(ANSWER_TIMEOUT, self.requests.acquire()).await else {
            return respond(StatusCode::SERVICE_UNAVAILABLE, "too many requests at the same time".to_owned());
        };
        let answering = catch_panic_async(answer(&path, &body.bytes, &self.context));
        match timeout(ANSWER_TIMEOUT, answering).await {
            Ok(Ok((status, text))) => respond(status, text),
            Ok(Err(panic)) => {
                error!(path, error = %panic, "admission review failed");
                respond(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())
            }
            Err(_) => {
                respond(StatusCode::GATEWAY_TIMEOUT, "the API server did not respond in time".to_owned())
            }
        }
    }
}

fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests;
