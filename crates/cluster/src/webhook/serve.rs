//! HTTPS, for the API server alone to ask.

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

/// How large a question may be: an object of the API server's greatest size, twice, and some words.
const MAX_BODY_BYTES: usize = 8 << 20;
/// How many may ask at once; the API server has few connections and keeps them.
const MAX_CONNECTIONS: usize = 256;
/// How long a handshake or the head of a question may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Listen on all addresses.
pub fn listen(port: u16) -> Result<TcpListener, Error> {
    let failed = |source: std::io::Error| Error::Serve { port, source: Box::new(source) };
    // A node without IPv6 has no address of that family, and one with it takes both here.
    let listener = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| std::net::TcpListener::bind(("0.0.0.0", port)))
        .map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    TcpListener::from_std(listener).map_err(failed)
}

/// Answer until `stop`.
pub async fn serve(
    listener: TcpListener,
    identity: Arc<ServingCertificate>,
    world: Arc<WebhookContext>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Serve { port: world.settings().webhook_port, source: Box::new(e) })?;
    let config = builder.with_no_client_auth().with_cert_resolver(identity.clone());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Out of files, perhaps: not for ever.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = room.clone().try_acquire_owned() else { continue };
        let (acceptor, identity, world) = (acceptor.clone(), identity.clone(), world.clone());
        let stop = stop.clone();
        tokio::spawn(async move {
            stop.run_until_cancelled(serve_connection(stream, acceptor, identity, world)).await;
            drop(place);
        });
    }
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    identity: Arc<ServingCertificate>,
    world: Arc<WebhookContext>,
) {
    let Ok(Ok(stream)) = timeout(READ_TIMEOUT, acceptor.accept(stream)).await else {
        return debug!("a connection without a handshake");
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (identity, world) = (identity.clone(), world.clone());
        async move { Ok::<_, Infallible>(handle(request, &identity, &world).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        debug!(error = %error_chain(&e), "connection");
    }
}

async fn handle(
    request: Request<Incoming>,
    identity: &ServingCertificate,
    world: &WebhookContext,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET && path == "/healthz" {
        let ready = identity.is_loaded() && world.is_ready();
        return respond(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, String::new());
    }
    if request.method() != Method::POST || !["/pods", "/networks", "/pools"].contains(&path.as_str()) {
        return respond(StatusCode::NOT_FOUND, "POST /pods, /networks or /pools".to_owned());
    }
    // Better no answer than one from half of the networks: then the pod is left as it is.
    if !world.is_ready() {
        return respond(StatusCode::SERVICE_UNAVAILABLE, "the networks are not known yet".to_owned());
    }
    let body = match timeout(READ_TIMEOUT, Limited::new(request.into_body(), MAX_BODY_BYTES).collect()).await
    {
        Ok(Ok(body)) => body.to_bytes(),
        _ => return respond(StatusCode::BAD_REQUEST, "the question did not come in full".to_owned()),
    };
    let review: AdmissionReview = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(e) => {
            warn!(error = %e, "a question that cannot be read");
            return respond(StatusCode::BAD_REQUEST, e.to_string());
        }
    };
    let request = review.request;
    let answer = match path.as_str() {
        "/pods" => pods::inject(&request, world).await,
        "/pools" => pools::review(&request),
        _ => networks::review(&request, world.settings()),
    };
    if answer != Default::default() {
        let (kind, namespace) = (&request.kind.kind, &request.namespace);
        let name = request.object["metadata"]["name"]
            .as_str()
            .or(request.object["metadata"]["generateName"].as_str())
            .unwrap_or_default();
        tracing::info!(
            object = format!("{kind} {namespace}/{name}"),
            patches = answer.patch.len(),
            refused = answer.denied,
            "admission"
        );
    }
    respond(StatusCode::OK, answer.to_review(&request.uid).to_string())
}

fn respond(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
