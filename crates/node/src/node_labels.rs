//! Labels this node as simulated and counts the nodes of the cluster.

use crate::{api_call::with_timeout, error::error_chain};
use ferroband_daemon::{Retry, merge_patch};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams, core::PartialObjectMeta};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Label that is `true` on nodes with simulated hardware and absent on others.
const SIMULATED_LABEL: &str = "ferroband.io/simulated";
/// Shortest and longest pause after a failed call of the API server.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
const COUNT_INTERVAL: Duration = Duration::from_secs(300);

/// Stores the number of the cluster's nodes in `nodes`, then sets or removes this node's simulation label,
/// and from then on updates the number periodically. Never returns.
pub async fn label_and_count_nodes(client: Client, node: String, simulated: bool, nodes: Arc<AtomicUsize>) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client);
    let update_count = async || match count_nodes(&api).await {
        Ok(number) => {
            nodes.store(number, Ordering::Relaxed);
            true
        }
        Err(e) => {
            debug!(error = %error_chain(&e), "cannot count the nodes of the cluster, retrying");
            false
        }
    };
    // Count before labelling, because address allocation needs the node count for the first pod.
    let mut counted = update_count().await;
    set_simulated_label(&api, &node, simulated).await;
    let mut retry = Retry::new(RETRY_PAUSE.0, COUNT_INTERVAL);
    loop {
        match counted {
            true => sleep(COUNT_INTERVAL).await,
            false => retry.pause().await,
        }
        counted = update_count().await;
    }
}

async fn set_simulated_label(api: &Api<PartialObjectMeta<Node>>, node: &str, simulated: bool) {
    // The value is `null` on a node with real hardware, which removes the label.
    let label = simulated.then_some("true");
    let patch = json!({ "metadata": { "labels": { SIMULATED_LABEL: label } } });
    let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
    while let Err(e) = merge_patch(api, node, &patch).await {
        if let Some(error) = retry.news(&e) {
            warn!(node, error, "cannot label the node, retrying");
        }
        retry.pause().await;
    }
    info!(node, simulated, "simulation label of the node updated");
}

/// Counts the nodes with one request, which lists a single node. The API server also returns how many remain.
async fn count_nodes(api: &Api<PartialObjectMeta<Node>>) -> kube::Result<usize> {
    let list = with_timeout(api.list(&ListParams::default().limit(1))).await?;
    let rest = list.metadata.remaining_item_count.unwrap_or_default();
    Ok(list.items.len() + usize::try_from(rest).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn nodes_are_counted_once_at_start_and_retried_after_a_failure() {
        let api = FakeApi::default();
        let nodes = Arc::new(AtomicUsize::new(0));
        let run = async |seconds| {
            let before = api.list_calls().len();
            let running = label_and_count_nodes(api.client(), "n1".into(), true, nodes.clone());
            timeout(Duration::from_secs(seconds), running).await.unwrap_err();
            let calls = api.list_calls().split_off(before);
            calls.into_iter().filter(|call| call == "GET /api/v1/nodes").count()
        };
        assert!(run(60).await > 2, "a failed count is repeated soon");
        let metadata = json!({"remainingItemCount": 6});
        let node = json!({"metadata": {"name": "n1"}});
        api.insert_object("/api/v1/nodes", json!({"metadata": metadata, "items": [node]}));
        assert_eq!(run(60).await, 1);
        assert_eq!(nodes.load(Ordering::Relaxed), 7);
    }
}
