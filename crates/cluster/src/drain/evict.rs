//! Pod eviction and cordoning.

use crate::{ControllerContext, Error};
use ferroband_api::sriov::{CORDONED, VfHolder};
use ferroband_daemon::{api_call::with_timeout, merge_patch};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Preconditions},
};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Minimum time between two requests to evict the same pod.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Result of requesting the eviction of several pods once.
#[derive(Debug, Default)]
pub struct EvictionResult {
    /// Number of pods that still existed when their evictions were requested.
    pub remaining: usize,
    /// Why evictions were refused, for example by a PodDisruptionBudget.
    pub blocked: Vec<String>,
}

/// Time of the last eviction request for each pod, by UID. Used to pause between two requests.
#[derive(Default)]
pub struct EvictionRequests(Mutex<HashMap<String, Instant>>);

impl EvictionRequests {
    /// Whether no eviction of this pod was requested within `RETRY_INTERVAL`. Forgets older requests.
    fn is_due(&self, uid: &str) -> bool {
        let mut requests = self.0.lock();
        requests.retain(|_, at| at.elapsed() < RETRY_INTERVAL);
        !requests.contains_key(uid)
    }

    fn record(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned(), Instant::now());
    }
}

/// Evicts the pods that use affected devices. A pod that was recreated has another UID and is not evicted.
pub async fn evict_holders(
    context: &ControllerContext,
    requests: &EvictionRequests,
    holders: &[VfHolder],
) -> Result<EvictionResult, Error> {
    let mut result = EvictionResult::default();
    for holder in holders {
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &holder.namespace);
        let name = format!("pod {}/{}", holder.namespace, holder.name);
        let pod = with_timeout(api.get_metadata_opt(&holder.name)).await.map_err(Error::api("get", &name))?;
        if pod.is_some_and(|pod| pod.uid().as_deref() == Some(&holder.uid)) {
            result.remaining += 1;
            request_eviction(&api, requests, &holder.name, &holder.uid, &name, &mut result).await?;
        }
    }
    Ok(result)
}

/// Evicts every pod of the node except DaemonSet pods and static pods, which would be
/// recreated on the same node, and completed pods.
pub async fn evict_all(
    context: &ControllerContext,
    requests: &EvictionRequests,
    node: &str,
) -> Result<EvictionResult, Error> {
    let mut result = EvictionResult::default();
    let everywhere: Api<Pod> = Api::all(context.client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = with_timeout(everywhere.list(&on_node))
        .await
        .map_err(Error::api("list", format!("pods of node {node}")))?;
    for pod in pods.items.iter().filter(|pod| is_evictable(pod)) {
        result.remaining += 1;
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
        let what = format!("pod {namespace}/{name}");
        request_eviction(&api, requests, &name, &pod.uid().unwrap_or_default(), &what, &mut result).await?;
    }
    Ok(result)
}

fn is_evictable(pod: &Pod) -> bool {
    let owners = pod.owner_references();
    let daemon = owners.iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    let mirror = pod.annotations().contains_key("kubernetes.io/config.mirror");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !daemon && !mirror && !matches!(phase, Some("Succeeded" | "Failed"))
}

async fn request_eviction(
    api: &Api<Pod>,
    requests: &EvictionRequests,
    name: &str,
    uid: &str,
    what: &str,
    result: &mut EvictionResult,
) -> Result<(), Error> {
    if !requests.is_due(uid) {
        return Ok(());
    }
    let same = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let delete = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    match with_timeout(api.evict(name, &params)).await {
        Ok(_) => {
            requests.record(uid);
            tracing::info!(pod = what, "pod eviction requested");
            Ok(())
        }
        // 404: the pod is gone. 409: it was replaced by a pod with the same name and another UID.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        // A PodDisruptionBudget forbids the eviction for now.
        Err(kube::Error::Api(status)) if status.code == 429 => {
            requests.record(uid);
            result.blocked.push(format!("{what}: {}", status.message));
            Ok(())
        }
        Err(e) => Err(Error::api("evict", what)(e)),
    }
}

/// Makes the node unschedulable. If the node already is unschedulable, an administrator cordoned it, and it
/// stays cordoned after the drain.
pub async fn cordon(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(context.client.clone());
    let current = with_timeout(api.get(node)).await.map_err(Error::api("get", format!("node {node}")))?;
    if current.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Ok(());
    }
    let patch = json!({
        "metadata": { "annotations": { CORDONED: "true" }, "resourceVersion": current.resource_version() },
        "spec": { "unschedulable": true },
    });
    merge_patch(&api, node, &patch).await.map_err(Error::api("cordon", format!("node {node}")))
}

/// Makes the node schedulable again, if Ferroband cordoned it.
pub async fn uncordon(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(context.client.clone());
    let current = with_timeout(api.get_opt(node)).await.map_err(Error::api("get", format!("node {node}")))?;
    if !current.is_some_and(|node| node.annotations().contains_key(CORDONED)) {
        return Ok(());
    }
    let patch =
        json!({ "metadata": { "annotations": { CORDONED: null } }, "spec": { "unschedulable": null } });
    merge_patch(&api, node, &patch).await.map_err(Error::api("uncordon", format!("node {node}")))
}
