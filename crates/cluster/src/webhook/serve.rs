//! The HTTPS server that the API server calls.

use super::admission::AdmissionReview;
use super::{context::WebhookContext, networks, pods, pools, serving_certificate::ServingCertificate};
use crate::Error;
use ferroband_daemon::error_chain;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
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
use tracing::{debug, warn};

/// Maximum size of a request. A request contains up to two objects, each at most as large as the API server allows,
/// and the AdmissionReview around them.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Maximum number of connections; the API server keeps few connections open.
const MAX_CONNECTIONS: usize = 256;
/// Timeout of the TLS handshake, the request header and the body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

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
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // The process may be out of file descriptors. Retry later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = connections.clone().try_acquire_owned() else { continue };
        let (acceptor, certificate, context) = (acceptor.clone(), certificate.clone(), context.clone());
        let stop = stop.clone();
        tokio::spawn(async move {
            stop.run_until_cancelled(serve_connection(stream, acceptor, certificate, context)).await;
            drop(permit);
        });
    }
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    certificate: Arc<ServingCertificate>,
    context: Arc<WebhookContext>,
) {
    let Ok(Ok(stream)) = timeout(READ_TIMEOUT, acceptor.accept(stream)).await else {
        return debug!("TLS handshake with a webhook client failed");
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (certificate, context) = (certificate.clone(), context.clone());
        async move { Ok::<_, Infallible>(handle(request, &certificate, &context).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        debug!(error = %error_chain(&e), "connection of a webhook client failed");
    }
}

async fn handle(
    request: Request<Incoming>,
    certificate: &ServingCertificate,
    context: &WebhookContext,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET && path == "/healthz" {
        let ready = certificate.is_loaded() && context.is_ready();
        return respond(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, String::new());
    }
    if request.method() != Method::POST || !["/pods", "/networks", "/pools"].contains(&path.as_str()) {
        return respond(
            StatusCode::NOT_FOUND,
            "not found; use POST with /pods, /networks or /pools".to_owned(),
        );
    }
    // While the caches are incomplete, the patch could be wrong. Return an error instead; the API server then admits
    // the object unchanged.
    if !context.is_ready() {
        return respond(StatusCode::SERVICE_UNAVAILABLE, "the network caches are not synced yet".to_owned());
    }
    let body = match timeout(READ_TIMEOUT, Limited::new(request.into_body(), MAX_BODY_BYTES).collect()).await
    {
        Ok(Ok(body)) => body.to_bytes(),
        _ => {
            return respond(
                StatusCode::BAD_REQUEST,
                "the request body is incomplete or too large".to_owned(),
            );
        }
    };
    let review: AdmissionReview = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(e) => {
            warn!(error = %e, "cannot decode AdmissionReview");
            return respond(StatusCode::BAD_REQUEST, e.to_string());
        }
    };
    let request = review.request;
    let response = match path.as_str() {
        "/pods" => pods::inject(&request, context).await,
        "/pools" => pools::review(&request),
        _ => networks::review(&request, context.settings()),
    };
    if response != Default::default() {
        let (kind, namespace) = (&request.kind.kind, &request.namespace);
        let name = request.object["metadata"]["name"]
            .as_str()
            .or(request.object["metadata"]["generateName"].as_str())
            .unwrap_or_default();
        tracing::info!(
            object = format!("{kind} {namespace}/{name}"),
            patches = response.patch.len(),
            denied = response.denied,
            "admission review answered"
        );
    }
    respond(StatusCode::OK, response.to_review(&request.uid).to_string())
}

fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
