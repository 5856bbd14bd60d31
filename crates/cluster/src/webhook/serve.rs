//! HTTPS, for the API server alone to ask.

use super::review::Review;
use super::{identity::Identity, networks, pods, pools, world::World};
use crate::Error;
use ferroband_daemon::chain;
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
const LARGEST: usize = 8 << 20;
/// How many may ask at once; the API server has few connections and keeps them.
const CONNECTIONS: usize = 256;
/// How long a handshake or the head of a question may take.
const PATIENCE: Duration = Duration::from_secs(10);

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
    identity: Arc<Identity>,
    world: Arc<World>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Serve { port: world.settings().webhook_port, source: Box::new(e) })?;
    let config = builder.with_no_client_auth().with_cert_resolver(identity.clone());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let room = Arc::new(Semaphore::new(CONNECTIONS));
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
            stop.run_until_cancelled(connection(stream, acceptor, identity, world)).await;
            drop(place);
        });
    }
    Ok(())
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, identity: Arc<Identity>, world: Arc<World>) {
    let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await else {
        return debug!("a connection without a handshake");
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (identity, world) = (identity.clone(), world.clone());
        async move { Ok::<_, Infallible>(answer(request, &identity, &world).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(e) = served.await {
        debug!(error = %chain(&e), "connection");
    }
}

async fn answer(request: Request<Incoming>, identity: &Identity, world: &World) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET && path == "/healthz" {
        let ready = identity.is_known() && world.is_known();
        return say(if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, String::new());
    }
    if request.method() != Method::POST || !["/pods", "/networks", "/pools"].contains(&path.as_str()) {
        return say(StatusCode::NOT_FOUND, "POST /pods, /networks or /pools".to_owned());
    }
    // Better no answer than one from half of the networks: then the pod is left as it is.
    if !world.is_known() {
        return say(StatusCode::SERVICE_UNAVAILABLE, "the networks are not known yet".to_owned());
    }
    let body = match timeout(PATIENCE, Limited::new(request.into_body(), LARGEST).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => return say(StatusCode::BAD_REQUEST, "the question did not come in full".to_owned()),
    };
    let review: Review = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(e) => {
            warn!(error = %e, "a question that cannot be read");
            return say(StatusCode::BAD_REQUEST, e.to_string());
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
            refused = answer.refused,
            "admission"
        );
    }
    say(StatusCode::OK, answer.to(&request.uid).to_string())
}

fn say(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
