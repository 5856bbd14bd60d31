//! Removes what Ferroband wrote to the API server, after it was removed from all nodes.
//!
//! ```text
//! cluster daemon ── scaled to 0, so that it neither writes its objects again nor removes records of other systems
//! records        ── addresses of running pods in the objects of Whereabouts and Spiderpool, in full
//! nodes          ── label ferroband.io/simulated, conditions Ferroband*
//! own objects    ── deleted, unless they describe a running pod or hardware that keeps its configuration
//! ```

use super::kept_objects::{keep_address_block, keep_guid_block, keep_node_partitions, keep_node_state};
use anyhow::Context;
use ferroband_api::ferroband::{
    AddressBlock, AddressIndex, AddressState, Fabric, GuidBlock, NodePartitions, SpiderPoolCopy,
    StickyAddresses, SubnetManagerHost,
};
use ferroband_api::sriov::SriovNetworkNodeState;
use ferroband_cluster::FullProjection;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const DEPLOYMENT_NAME: &str = "ferroband-cluster";
/// Maximum time to wait until the cluster daemon has stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Label of a node with simulated hardware.
const SIMULATED_LABEL: &str = "ferroband.io/simulated";

/// What was written and removed, and what stays with the reason. Each text is one line of the command's output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CleanupReport {
    pub written: Vec<String>,
    pub removed: Vec<String>,
    pub stays: Vec<String>,
}

/// Removes labels, conditions and objects. A failure is reported as something that stays, and the others go on. Waits
/// up to `timeout` until the cluster daemon has stopped, but not longer than a minute.
pub async fn clean_cluster(client: &Client, namespace: &str, timeout: Duration) -> CleanupReport {
    let mut report = CleanupReport::default();
    if let Err(error) = stop_cluster_daemon(client, namespace, timeout.min(STOP_TIMEOUT)).await {
        // A running leader would write its objects again.
        report.stays.push(format!("all objects of Ferroband: {error:#}; run this command again"));
        return report;
    }
    report.clean_nodes(client).await;
    let pods = match running_pods(client).await {
        Ok(pods) => pods,
        Err(error) => {
            report.stays.push(format!("objects of Ferroband: {error:#}"));
            return report;
        }
    };
    report.write_records(client, &pods).await;
    report.delete::<AddressBlock>(Api::all(client.clone()), |block| keep_address_block(block, &pods)).await;
    report.delete::<AddressIndex>(Api::all(client.clone()), |_| None).await;
    report.delete::<AddressState>(Api::all(client.clone()), |_| None).await;
    report.delete::<SpiderPoolCopy>(Api::all(client.clone()), |_| None).await;
    let namespaces = report.list_namespaces(client).await;
    for namespace in namespaces {
        report.delete::<StickyAddresses>(Api::namespaced(client.clone(), &namespace), |_| None).await;
    }
    report.delete::<NodePartitions>(Api::all(client.clone()), keep_node_partitions).await;
    report.delete::<GuidBlock>(Api::all(client.clone()), keep_guid_block).await;
    report.delete::<SubnetManagerHost>(Api::all(client.clone()), |_| None).await;
    report.delete::<Fabric>(Api::all(client.clone()), |_| None).await;
    report.delete::<SriovNetworkNodeState>(Api::namespaced(client.clone(), namespace), keep_node_state).await;
    report.stays.push(
        "CRDs and the objects that users wrote: deleting a CRD deletes all its objects, also those of other projects"
            .to_owned(),
    );
    report
}

/// Returns the UIDs of all pods.
pub async fn running_pods(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let pods: Api<Pod> = Api::all(client.clone());
    let listed = pods.list_metadata(&ListParams::default()).await.context("cannot list pods")?;
    Ok(listed.items.iter().filter_map(ResourceExt::uid).collect())
}

/// Scales the Deployment to 0 and waits until its pods are gone.
async fn stop_cluster_daemon(client: &Client, namespace: &str, timeout: Duration) -> anyhow::Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let none = json!({"spec": {"replicas": 0}});
    match api.patch(DEPLOYMENT_NAME, &PatchParams::default(), &Patch::Merge(&none)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        patched => patched.with_context(|| format!("cannot scale Deployment {DEPLOYMENT_NAME} to 0"))?,
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let own =
        ListParams::default().labels("app.kubernetes.io/name=ferroband,app.kubernetes.io/component=cluster");
    let until = Instant::now() + timeout;
    loop {
        let running = pods.list_metadata(&own).await.context("cannot list the cluster daemon's pods")?.items;
        let Some(pod) = running.first() else { return Ok(()) };
        anyhow::ensure!(Instant::now() < until, "the cluster daemon's pod {} does not stop", pod.name_any());
        sleep(Duration::from_millis(500)).await;
    }
}

impl CleanupReport {
    /// Writes the addresses of running pods into the objects of Whereabouts and Spiderpool.
    async fn write_records(&mut self, client: &Client, pods: &BTreeSet<String>) {
        let (written, failed) = match FullProjection::read(client, pods).await {
            Ok(projection) => projection.write().await,
            Err(error) => (0, vec![ferroband_node::error_chain(&error)]),
        };
        if written > 0 {
            self.written.push(format!(
                "addresses of running pods, in {written} objects of Whereabouts and Spiderpool"
            ));
        }
        self.stays.extend(failed.into_iter().map(|error| {
            format!("addresses of running pods that Whereabouts or Spiderpool does not know: {error}")
        }));
    }

    async fn clean_nodes(&mut self, client: &Client) {
        let api: Api<Node> = Api::all(client.clone());
        let nodes = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(error) => {
                self.stays.push(format!("labels and conditions of nodes: {error}"));
                return;
            }
        };
        let mut cleaned = 0;
        for node in nodes {
            match clean_node(&api, &node).await {
                Ok(changed) => cleaned += usize::from(changed),
                Err(error) => {
                    self.stays.push(format!("label or conditions of node {}: {error}", node.name_any()));
                }
            }
        }
        if cleaned > 0 {
            self.removed.push(format!("label and conditions of {cleaned} nodes"));
        }
    }

    /// Returns the namespaces with StickyAddresses.
    async fn list_namespaces(&mut self, client: &Client) -> BTreeSet<String> {
        let api: Api<StickyAddresses> = Api::all(client.clone());
        match api.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items.iter().filter_map(ResourceExt::namespace).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => BTreeSet::new(),
            Err(error) => {
                self.stays.push(format!("StickyAddresses objects: {error}"));
                BTreeSet::new()
            }
        }
    }

    /// Deletes all objects of `api` for which `keep` returns no reason to stay.
    async fn delete<K>(&mut self, api: Api<K>, keep: impl Fn(&K) -> Option<String>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let kind = K::kind(&());
        let objects = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            // The CRD is not installed.
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                self.stays.push(format!("{kind} objects: {error}"));
                return;
            }
        };
        let mut deleted = 0;
        for object in objects {
            let name = object.name_any();
            if let Some(reason) = keep(&object) {
                self.stays.push(format!("{kind} {name}: {reason}"));
                continue;
            }
            // Only what was examined is deleted. If another client changed the object, it stays.
            let preconditions =
                Preconditions { uid: object.uid(), resource_version: object.resource_version() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&name, &params).await {
                Ok(_) => deleted += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => self.stays.push(format!("{kind} {name}: {error}")),
            }
        }
        if deleted > 0 {
            self.removed.push(format!("{deleted} {kind} objects"));
        }
    }
}

/// Removes the label and the conditions of Ferroband from the node. Returns whether it had any.
async fn clean_node(api: &Api<Node>, node: &Node) -> kube::Result<bool> {
    let (name, params) = (node.name_any(), PatchParams::default());
    let labelled = node.labels().contains_key(SIMULATED_LABEL);
    if labelled {
        let patch = json!({"metadata": {"labels": {SIMULATED_LABEL: null}}});
        api.patch(&name, &params, &Patch::Merge(&patch)).await?;
    }
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let own: Vec<Value> = conditions
        .filter(|condition| condition.type_.starts_with("Ferroband"))
        .map(|condition| json!({"$patch": "delete", "type": condition.type_}))
        .collect();
    if !own.is_empty() {
        let patch = json!({"status": {"conditions": own}});
        api.patch_status(&name, &params, &Patch::Strategic(&patch)).await?;
    }
    Ok(labelled || !own.is_empty())
}
