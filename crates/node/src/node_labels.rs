//! Labels this node as simulated and counts the nodes of the cluster.

use crate::{api_call::with_timeout, error::error_chain};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
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
const RETRY_DELAY: Duration = Duration::from_secs(5);
const COUNT_INTERVAL: Duration = Duration::from_secs(300);

/// Stores the number of the cluster's nodes in `nodes`, then sets or removes this node's simulation label,
/// and from then on updates the number periodically. Never returns.
pub async fn label_and_count_nodes(client: Client, node: String, simulated: bool, nodes: Arc<AtomicUsize>) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client);
    let update_count = async || match count_nodes(&api).await {
        Ok(number) => nodes.store(number, Ordering::Relaxed),
        Err(e) => debug!(error = %error_chain(&e), "cannot count the nodes of the cluster, retrying"),
    };
    // Count before labelling, because address allocation needs the node count for the first pod.
    update_count().await;
    set_simulated_label(&api, &node, simulated).await;
    loop {
        update_count().await;
        sleep(COUNT_INTERVAL).await;
    }
}

async fn set_simulated_label(api: &Api<PartialObjectMeta<Node>>, node: &str, simulated: bool) {
    // The value is `null` on a node with real hardware, which removes the label.
    let label = simulated.then_some("true");
    let patch = json!({ "metadata": { "labels": { SIMULATED_LABEL: label } } });
    let mut last_problem = String::new();
    while let Err(e) = with_timeout(api.patch(node, &PatchParams::default(), &Patch::Merge(&patch))).await {
        let problem = error_chain(&e);
        if problem != last_problem {
            warn!(node, error = problem, "cannot label the node, retrying");
            last_problem = problem;
        }
        sleep(RETRY_DELAY).await;
    }
    info!(node, simulated, "simulation label of the node updated");
}

/// Counts the nodes with one request, which lists a single node. The API server also returns how many remain.
async fn count_nodes(api: &Api<PartialObjectMeta<Node>>) -> kube::Result<usize> {
    let list = with_timeout(api.list(&ListParams::default().limit(1))).await?;
    let rest = list.metadata.remaining_item_count.unwrap_or_default();
    Ok(list.items.len() + usize::try_from(rest).unwrap_or_default())
}
