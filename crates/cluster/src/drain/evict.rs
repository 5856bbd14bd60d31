//! Letting pods go.

use crate::{ControllerContext, Error};
use ferroband_api::sriov::{CORDONED, VfHolder};
use ferroband_daemon::api_call::with_timeout;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A pod that was asked to go is asked again after this long.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// What came of asking.
#[derive(Debug, Default)]
pub struct EvictionResult {
    /// The pods that are still there.
    pub remaining: usize,
    /// Those that a PodDisruptionBudget holds back, or that were refused otherwise: why.
    pub blocked: Vec<String>,
}

/// Who was asked when.
#[derive(Default)]
pub struct EvictionRequests(Mutex<HashMap<String, Instant>>);

impl EvictionRequests {
    /// Whether it is time to ask the pod of this UID.
    fn is_due(&self, uid: &str) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, at| at.elapsed() < RETRY_INTERVAL);
        !asked.contains_key(uid)
    }

    fn record(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), Instant::now());
    }
}

/// Ask the pods that hold something to go; none is asked that has another UID by now.
pub async fn evict_holders(
    context: &ControllerContext,
    asked: &EvictionRequests,
    holders: &[VfHolder],
) -> Result<EvictionResult, Error> {
    let mut evicted = EvictionResult::default();
    for holder in holders {
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &holder.namespace);
        let name = format!("pod {}/{}", holder.namespace, holder.name);
        let pod = with_timeout(api.get_metadata_opt(&holder.name)).await.map_err(Error::api("get", &name))?;
        if pod.is_some_and(|pod| pod.uid().as_deref() == Some(&holder.uid)) {
            evicted.remaining += 1;
            request_eviction(&api, asked, &holder.name, &holder.uid, &name, &mut evicted).await?;
        }
    }
    Ok(evicted)
}

/// Ask every pod of the node to go, but those of DaemonSets and of the kubelet's files, which would come back.
pub async fn evict_all(
    context: &ControllerContext,
    asked: &EvictionRequests,
    node: &str,
) -> Result<EvictionResult, Error> {
    let mut evicted = EvictionResult::default();
    let everywhere: Api<Pod> = Api::all(context.client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods =
        with_timeout(everywhere.list(&here)).await.map_err(Error::api("list", format!("pods of {node}")))?;
    for pod in pods.items.iter().filter(|pod| is_evictable(pod)) {
        evicted.remaining += 1;
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
        let told = format!("pod {namespace}/{name}");
        request_eviction(&api, asked, &name, &pod.uid().unwrap_or_default(), &told, &mut evicted).await?;
    }
    Ok(evicted)
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
    asked: &EvictionRequests,
    name: &str,
    uid: &str,
    told: &str,
    evicted: &mut EvictionResult,
) -> Result<(), Error> {
    if !asked.is_due(uid) {
        return Ok(());
    }
    let same = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let delete = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
    let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    match with_timeout(api.evict(name, &params)).await {
        Ok(_) => {
            asked.record(uid);
            tracing::info!(pod = told, "asked to go");
            Ok(())
        }
        // Gone, or another pod of that name.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        // A PodDisruptionBudget holds it back.
        Err(kube::Error::Api(status)) if status.code == 429 => {
            asked.record(uid);
            evicted.blocked.push(format!("{told}: {}", status.message));
            Ok(())
        }
        Err(e) => Err(Error::api("evict", told)(e)),
    }
}

/// Make the node unschedulable, unless it is: then an administrator did it, and it stays.
pub async fn cordon(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(context.client.clone());
    let there = with_timeout(api.get(node)).await.map_err(Error::api("get", format!("node {node}")))?;
    if there.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Ok(());
    }
    let patch = json!({
        "metadata": { "annotations": { CORDONED: "true" }, "resourceVersion": there.resource_version() },
        "spec": { "unschedulable": true },
    });
    let done = with_timeout(api.patch(node, &PatchParams::default(), &Patch::Merge(&patch))).await;
    done.map(drop).map_err(Error::api("cordon", format!("node {node}")))
}

/// Make it schedulable again, if it was us who made it unschedulable.
pub async fn uncordon(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<Node> = Api::all(context.client.clone());
    let there = with_timeout(api.get_opt(node)).await.map_err(Error::api("get", format!("node {node}")))?;
    if !there.is_some_and(|node| node.annotations().contains_key(CORDONED)) {
        return Ok(());
    }
    let patch =
        json!({ "metadata": { "annotations": { CORDONED: null } }, "spec": { "unschedulable": null } });
    let done = with_timeout(api.patch(node, &PatchParams::default(), &Patch::Merge(&patch))).await;
    done.map(drop).map_err(Error::api("uncordon", format!("node {node}")))
}
