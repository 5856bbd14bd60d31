//! Labels this node as simulated.

use ferroband_daemon::{Retry, merge_patch};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, core::PartialObjectMeta};
use serde_json::json;
use std::time::Duration;
use tracing::{info, warn};

/// Label that is `true` on nodes with simulated hardware and absent on others.
const SIMULATED_LABEL: &str = "ferroband.io/simulated";
/// Shortest and longest pause after a failed call of the API server.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Sets or removes this node's simulation label. Never returns.
pub async fn label_simulated_node(client: Client, node: String, simulated: bool) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client);
    // The value is `null` on a node with real hardware, which removes the label.
    let label = simulated.then_some("true");
    let patch = json!({ "metadata": { "labels": { SIMULATED_LABEL: label } } });
    let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
    while let Err(e) = merge_patch(&api, &node, &patch).await {
        if let Some(error) = retry.news(&e) {
            warn!(node, error, "cannot label the node, retrying");
        }
        retry.pause().await;
    }
    info!(node, simulated, "simulation label of the node updated");
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_node_with_real_hardware_loses_the_label() {
        for (simulated, value) in [(true, json!("true")), (false, json!(null))] {
            let api = FakeApi::default();
            let labelling = label_simulated_node(api.client(), "n1".into(), simulated);
            timeout(Duration::from_secs(60), labelling).await.unwrap_err();
            let body = api.last_body("PATCH", "/api/v1/nodes/n1");
            assert_eq!(body, json!({"metadata": {"labels": {"ferroband.io/simulated": value}}}));
            assert_eq!(api.list_calls().len(), 1);
        }
    }
}
