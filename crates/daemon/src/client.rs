//! Kubernetes API client.

use kube::{Client, Config};
use tracing::info;

/// Creates a client from the pod's service account or KUBECONFIG.
pub async fn api_client() -> Result<Client, kube::Error> {
    let config = Config::infer().await.map_err(kube::Error::InferConfig)?;
    info!(server = %config.cluster_url, "using API server");
    Client::try_from(config)
}
