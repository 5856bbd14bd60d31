//! The client of the API server: one HTTP/2 connection per daemon.
//!
//! kube's own client uses HTTP/1.1, which needs one connection for each watch and for each concurrent request. With ten
//! thousand nodes that would be hundreds of thousands of connections.

use crate::{api_call::with_timeout, error_chain};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
};
use std::{error::Error, io, time::Duration};
use tower::{BoxError, ServiceBuilder};
use tracing::{info, warn};

/// How often an idle connection is checked, and how long the API server may take to answer. client-go uses the same
/// times. A connection that broke without a notice would otherwise block all watches and calls.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client from the pod's service account or KUBECONFIG.
pub async fn api_client() -> Result<Client, kube::Error> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    let server = config.cluster_url.to_string();
    // HTTP/2 is negotiated with TLS. A proxy or another server name needs kube's own connectors.
    let is_plain = config.cluster_url.scheme_str() != Some("https");
    if is_plain || config.proxy_url.is_some() || config.tls_server_name.is_some() {
        info!(server, "using API server with HTTP/1.1");
        return Client::try_from(config);
    }
    let client = http2_client(&config)?;
    // The first call opens the connection, so that the watches, which start together, share it.
    if let Err(e) = with_timeout(client.apiserver_version()).await
        && !may_use_http2(&e)
    {
        warn!(server, error = %error_chain(&e), "API server does not accept HTTP/2; using HTTP/1.1");
        return Client::try_from(config);
    }
    info!(server, "using API server with HTTP/2");
    Ok(client)
}

fn http2_client(config: &Config) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let tls = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_only()
        .enable_http2()
        .wrap_connector(tcp);
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .http2_only(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        // The connection counts as idle while it only carries watches.
        .pool_idle_timeout(None)
        .timer(TokioTimer::new())
        .build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Whether a failed call says nothing against HTTP/2: the server answered with a status, or it cannot be reached.
fn may_use_http2(error: &kube::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(error.downcast_ref(), Some(kube::Error::Api(_) | kube::Error::Auth(_)))
            // TLS problems have other kinds. Everything that the network causes may be over soon.
            || kind.is_some_and(|kind| !matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::Other))
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
