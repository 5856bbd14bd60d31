//! Devices that the kubelet has allocated to a pod.
//!
//! ```text
//! pod-resources/kubelet.sock ── Get, or List ────┐
//! device-plugins/kubelet_internal_checkpoint ────┴─▶ PodDevices ── take_next(resource) ──▶ one device per network
//!   only if the socket does not exist
//! ```
//!
//! Devices keep the kubelet's order: by container, then in allocation order. The n-th network of a resource
//! takes the n-th device, so the devices must not be sorted.

mod checkpoint;
mod pod_devices;
#[cfg(test)]
mod tests;

pub use checkpoint::{HeldDevices, read_checkpoint};
pub use pod_devices::PodDevices;

use crate::Error;
use ferroband_daemon::Retry;
use ferroband_kernel::Root;
use ferroband_model::PodRef;
use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use wire::{
    GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
    pod_resources_lister_client::PodResourcesListerClient,
};

/// The kubelet's PodResources API, from `proto/podresources.proto`.
mod wire {
    tonic::include_proto!("v1");
}

/// The kubelet's device plugin API, from `proto/deviceplugin.proto`.
#[allow(missing_docs, reason = "documented in the proto file")]
pub mod device_plugin_api {
    tonic::include_proto!("v1beta1");
}

const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest and longest pause after a query that the kubelet refused because it answers at most 100 per second, of all
/// its clients together.
const LIMIT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Timeout of kubelet queries whose caller can continue without an answer.
const SHORT_QUERY_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum size of a response of the kubelet. A `List` response contains every pod of the node.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Reads the devices of pods from this node's kubelet.
#[derive(Clone, Debug)]
pub struct PodResourcesClient {
    socket: PathBuf,
    checkpoint: PathBuf,
}

impl PodResourcesClient {
    /// Uses the kubelet's default directory, `var/lib/kubelet`, under `root`.
    pub fn new(root: &Root) -> Self {
        Self::in_kubelet_dir(&root.path("var/lib/kubelet"))
    }

    /// Uses the kubelet's directory `folder`, normally `/var/lib/kubelet`.
    pub fn in_kubelet_dir(folder: &Path) -> Self {
        Self {
            socket: folder.join("pod-resources/kubelet.sock"),
            checkpoint: checkpoint::path(&folder.join("device-plugins")),
        }
    }

    /// Returns the devices of `pod`. The result is empty if the pod has none. The kubelet's checkpoint file
    /// is read only if the PodResources socket does not exist.
    pub async fn pod_devices(&self, pod: &PodRef) -> Result<PodDevices, Error> {
        match self.socket.try_exists() {
            Ok(false) => self.read_checkpoint(pod),
            _ => self.query_socket(pod).await,
        }
    }

    /// Lists every allocated device of every pod as (resource name, device ID). Returns `None` if the kubelet
    /// does not answer.
    pub async fn list_allocated_devices(&self) -> Option<BTreeSet<(String, String)>> {
        let channel = connect(&self.socket, SHORT_QUERY_TIMEOUT).await.ok()?;
        let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let pods = client.list(ListPodResourcesRequest {}).await.ok()?.into_inner().pod_resources;
        let containers = pods.into_iter().flat_map(|pod| pod.containers);
        let allocated = containers.flat_map(|container| container.devices).flat_map(|devices| {
            let resource = devices.resource_name;
            devices.device_ids.into_iter().map(move |id| (resource.clone(), id))
        });
        Some(allocated.collect())
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
        let channel = connect(&self.socket, QUERY_TIMEOUT).await.map_err(unreachable)?;
        let client = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
        let deadline = Instant::now() + QUERY_TIMEOUT;
        let mut retry = Retry::new(LIMIT_PAUSE.0, LIMIT_PAUSE.1);
        loop {
            match query_pod_resources(client.clone(), pod).await {
                Ok(resources) => return Ok(PodDevices::from_pod_resources(&resources)),
                // Many pods start at the same time. Their ADDs wait here, rather than fail and come back together.
                Err(e) if e.code() == Code::ResourceExhausted && Instant::now() < deadline => {
                    retry.pause().await;
                }
                Err(e) => return Err(failed(e)),
            }
        }
    }

    fn read_checkpoint(&self, pod: &PodRef) -> Result<PodDevices, Error> {
        let failed = |source| Error::File { action: "read", path: self.checkpoint.clone(), source };
        let text = match std::fs::read(&self.checkpoint) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(Error::NoKubelet { pod: pod.to_string(), socket: self.socket.clone() });
            }
            Err(e) => return Err(failed(e)),
        };
        checkpoint::parse_pod_devices(&text, &pod.uid).map_err(|e| failed(e.into()))
    }
}

/// Connects to a socket of the kubelet. `timeout` limits the connection and each request.
pub(crate) async fn connect(socket: &Path, timeout: Duration) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
    endpoint.connect_timeout(timeout).timeout(timeout).connect().await
}

/// Whether the kubelet would answer the same query later.
fn is_temporary(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted)
}

/// Queries the kubelet for one pod. If the kubelet does not support the Get method, lists all pods and
/// selects this one.
async fn query_pod_resources(
    mut client: PodResourcesListerClient<Channel>,
    pod: &PodRef,
) -> Result<PodResources, Status> {
    let request = GetPodResourcesRequest { pod_name: pod.name.clone(), pod_namespace: pod.namespace.clone() };
    match client.get(request).await {
        Ok(response) => return Ok(response.into_inner().pod_resources.unwrap_or_default()),
        Err(status) if is_temporary(&status) => return Err(status),
        // Any other error means that the Get method is unknown or disabled. Which gRPC status code the
        // kubelet returns then depends on its version.
        Err(_) => {}
    }
    let pods = client.list(ListPodResourcesRequest {}).await?.into_inner().pod_resources;
    let is_pod =
        |candidate: &PodResources| candidate.name == pod.name && candidate.namespace == pod.namespace;
    Ok(pods.into_iter().find(is_pod).unwrap_or_default())
}
