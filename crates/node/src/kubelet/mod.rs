//! What the kubelet knows of a pod: the devices it gave it.
//!
//! ```text
//! pod-resources/kubelet.sock ── Get, else List ──┐
//! device-plugins/kubelet_internal_checkpoint ────┴─▶ Devices ── take(resource) ──▶ one device for each network
//!   only where the socket is missing
//! ```
//!
//! The order is the kubelet's: by container, then as the devices were given. Whoever pairs a network with a container
//! relies on it, so nothing is sorted.

mod checkpoint;
mod pod_devices;
#[cfg(test)]
mod tests;

pub use pod_devices::PodDevices;

use crate::Error;
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use wire::{
    GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
    pod_resources_lister_client::PodResourcesListerClient,
};

/// The kubelet's interface, from `proto/podresources.proto`.
mod wire {
    tonic::include_proto!("v1");
}

/// How long the kubelet may take to answer.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// The same where somebody waits for the answer who can do without.
const SHORT_QUERY_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the answer may be: it is about every pod of the node.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The kubelet of this node.
#[derive(Clone, Debug)]
pub struct PodResourcesClient {
    socket: PathBuf,
    checkpoint: PathBuf,
}

impl PodResourcesClient {
    /// The one that keeps its files under `root`.
    pub fn new(root: &Root) -> Self {
        Self::in_kubelet_dir(&root.path("var/lib/kubelet"))
    }

    /// The one that keeps its files in `folder`.
    pub fn in_kubelet_dir(folder: &Path) -> Self {
        Self {
            socket: folder.join("pod-resources/kubelet.sock"),
            checkpoint: folder.join("device-plugins/kubelet_internal_checkpoint"),
        }
    }

    /// The devices of `pod`. None is an answer as well: it asked for none.
    pub async fn pod_devices(&self, pod: &PodRef) -> Result<PodDevices, Error> {
        match self.socket.try_exists() {
            Ok(false) => self.read_checkpoint(pod),
            _ => self.query_socket(pod).await,
        }
    }

    /// Every unit of every resource that a pod has, by resource and id; nothing when the kubelet does not say.
    pub async fn list_allocated_devices(&self) -> Option<BTreeSet<(String, String)>> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", self.socket.display())).ok()?;
        let channel = endpoint
            .connect_timeout(SHORT_QUERY_TIMEOUT)
            .timeout(SHORT_QUERY_TIMEOUT)
            .connect()
            .await
            .ok()?;
        let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let pods = client.list(ListPodResourcesRequest {}).await.ok()?.into_inner().pod_resources;
        let containers = pods.into_iter().flat_map(|pod| pod.containers);
        let given = containers.flat_map(|container| container.devices).flat_map(|given| {
            let resource = given.resource_name;
            given.device_ids.into_iter().map(move |id| (resource.clone(), id))
        });
        Some(given.collect())
    }

    async fn query_socket(&self, pod: &PodRef) -> Result<PodDevices, Error> {
        let failed = |source: Status| Error::Kubelet {
            path: self.socket.clone(),
            pod: pod.to_string(),
            source: Box::new(source),
        };
        let unreachable = |e: tonic::transport::Error| Error::Kubelet {
            path: self.socket.clone(),
            pod: pod.to_string(),
            source: Box::new(e),
        };
        let endpoint = Endpoint::from_shared(format!("unix://{}", self.socket.display()))
            .map_err(unreachable)?
            .connect_timeout(QUERY_TIMEOUT)
            .timeout(QUERY_TIMEOUT);
        let channel = endpoint.connect().await.map_err(unreachable)?;
        let client = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        Ok(PodDevices::from_pod_resources(&query_pod_resources(client, pod).await.map_err(failed)?))
    }

    fn read_checkpoint(&self, pod: &PodRef) -> Result<PodDevices, Error> {
        let file = |source| Error::File { action: "read", path: self.checkpoint.clone(), source };
        let text = match std::fs::read(&self.checkpoint) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(Error::NoKubelet { pod: pod.to_string(), socket: self.socket.clone() });
            }
            Err(e) => return Err(file(e)),
        };
        checkpoint::parse_pod_devices(&text, &pod.uid).map_err(|e| file(e.into()))
    }
}

/// Ask for one pod; of a kubelet that does not answer that, for all.
async fn query_pod_resources(
    mut client: PodResourcesListerClient<Channel>,
    pod: &PodRef,
) -> Result<PodResources, Status> {
    let request = GetPodResourcesRequest { pod_name: pod.name.clone(), pod_namespace: pod.namespace.clone() };
    match client.get(request).await {
        Ok(answer) => return Ok(answer.into_inner().pod_resources.unwrap_or_default()),
        Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {
            return Err(status);
        }
        // Not known, or switched off: each kubelet has its own words for it.
        Err(_) => {}
    }
    let all = client.list(ListPodResourcesRequest {}).await?.into_inner().pod_resources;
    let meant = |one: &PodResources| one.name == pod.name && one.namespace == pod.namespace;
    Ok(all.into_iter().find(meant).unwrap_or_default())
}
