//! The way to the API server.

use kube::{Client, Config};
use tracing::info;

/// A client for the API server of this pod, or of KUBECONFIG.
pub async fn api_client() -> Result<Client, kube::Error> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    info!(server = %config.cluster_url, "API server");
    Client::try_from(config)
}
