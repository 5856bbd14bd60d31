//! This node's own object, and how many others there are.

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

/// The label of a node whose hardware is simulated.
const SIMULATED_LABEL: &str = "ferroband.io/simulated";
/// The pause after a failed attempt.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// How often the nodes are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(300);

/// Count the cluster's nodes into `nodes`, say on this one whether its hardware is simulated, and keep counting.
pub async fn label_and_count_nodes(client: Client, node: String, simulated: bool, nodes: Arc<AtomicUsize>) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client);
    let counted = async || match count_nodes(&api).await {
        Ok(number) => nodes.store(number, Ordering::Relaxed),
        Err(e) => debug!(error = %error_chain(&e), "cannot count the nodes"),
    };
    // First, because addresses are assigned with it in mind from the first pod on.
    counted().await;
    set_simulated_label(&api, &node, simulated).await;
    loop {
        counted().await;
        sleep(COUNT_INTERVAL).await;
    }
}

async fn set_simulated_label(api: &Api<PartialObjectMeta<Node>>, node: &str, simulated: bool) {
    // A node that had simulated hardware and has real one now must lose the label.
    let label = simulated.then_some("true");
    let patch = json!({ "metadata": { "labels": { SIMULATED_LABEL: label } } });
    let mut trouble = String::new();
    while let Err(e) = with_timeout(api.patch(node, &PatchParams::default(), &Patch::Merge(&patch))).await {
        let problem = error_chain(&e);
        if problem != trouble {
            warn!(node, error = problem, "cannot label the node; trying again");
            trouble = problem;
        }
        sleep(RETRY_DELAY).await;
    }
    info!(node, simulated, "labelled");
}

/// How many nodes there are: one is listed, and the API server says how many remain.
async fn count_nodes(api: &Api<PartialObjectMeta<Node>>) -> kube::Result<usize> {
    let list = with_timeout(api.list(&ListParams::default().limit(1))).await?;
    let rest = list.metadata.remaining_item_count.unwrap_or_default();
    Ok(list.items.len() + usize::try_from(rest).unwrap_or_default())
}
