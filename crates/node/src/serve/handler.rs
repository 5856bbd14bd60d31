//! What CNI calls need from the daemon, and the calls that are answered with one message.

use super::socket::protocol_fault;
use crate::{
    address::{AllocatorHandle, DetectionSettings},
    build::{AttachmentIpRequests, PlanOutput, build_plan, check_allocated_devices, partition_requests},
    observe::{NetworkStatusWriter, PodEventRecorder},
    resolve::{PodResolver, ResolvedInterface, ResolvedPod},
};
use ferroband_address::AddressRelease;
use ferroband_attach::{
    DeviceOp,
    message::CniCall,
    plan::{AssignedAddresses, Attachment, Plan, PlanStep, StepKind},
};
use ferroband_config::network_name;
use ferroband_kernel::{Hardware, Host, Netns};
use ferroband_model::{Fault, FaultCode, PodRef};
use ferroband_partition::PartitionMembership;
use std::{future::Future, os::fd::OwnedFd, slice, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// How long a DEL waits for its addresses to be released before the CNI plugin stores a pending release. This
/// is less than the two seconds that the plugin waits for an answer.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1500);

/// Everything that CNI calls need from the daemon.
pub struct CniHandler {
    pub resolver: PodResolver,
    pub host: Arc<dyn Host>,
    pub hardware: Option<Arc<dyn Hardware>>,
    pub partitions: Arc<dyn PartitionMembership>,
    pub allocator: AllocatorHandle,
    /// Settings of duplicate address and gateway detection.
    pub probing: DetectionSettings,
    pub events: PodEventRecorder,
    pub network_status: NetworkStatusWriter,
}

impl CniHandler {
    /// Resolves the call of an ADD and builds its plan. Also returns the pod with its UID from the API server.
    pub async fn plan(&self, call: &CniCall) -> Result<(PlanOutput, PodRef), Fault> {
        let mut resolved = self.resolver.resolve_add(call).await?;
        let planned = match build_plan(&resolved) {
            Err(fault) if self.resolver.refresh_pools(&mut resolved.pod, &fault).await => {
                build_plan(&resolved)?
            }
            planned => planned?,
        };
        Ok((planned, PodRef { uid: resolved.pod.facts.uid.clone(), ..resolved.pod.pod }))
    }

    /// Builds the plan of one interface, for a plugin that another meta plugin calls. What it may use is checked as for
    /// a network that Ferroband attaches itself.
    pub async fn plan_interface(&self, call: &CniCall) -> Result<(PlanOutput, PodRef), Fault> {
        let mut resolved = self.resolver.resolve_interface(call).await?;
        let kind = StepKind::from_config(&resolved.config).map_err(|e| e.fault())?;
        if !kind.uses_fabric_identity() {
            return Err(protocol_fault("the plugin uses neither a P_Key nor a GUID".to_owned()));
        }
        let ip_requests = match kind.uses_daemon_ipam() {
            true => vec![self.interface_requests(&mut resolved).await?],
            false => Vec::new(),
        };
        let name = network_name(&resolved.config).to_owned();
        let devices = self.resolver.interface_devices(&resolved).await?;
        check_allocated_devices(&name, slice::from_ref(&resolved.config), &devices)?;
        let attachments = vec![Attachment {
            network: name.clone(),
            name,
            ifname: call.ifname.clone(),
            steps: vec![PlanStep { config: resolved.config, kind }],
            ..Attachment::default()
        }];
        let partitions = partition_requests(&attachments);
        let ResolvedPod { pod, facts, container, .. } = resolved.pod;
        let with_uid = PodRef { uid: facts.uid.clone(), ..pod.clone() };
        let plan = Plan { pod, container, attachments, membership: false, partitions };
        Ok((PlanOutput { plan, ip_requests, marks: Vec::new(), devices }, with_uid))
    }

    /// Assigns the addresses of one interface, for a foreign plugin that uses Ferroband as its IPAM plugin.
    pub async fn assign_interface(&self, call: &CniCall) -> Result<AssignedAddresses, Fault> {
        let mut resolved = self.resolver.resolve_interface(call).await?;
        let requests = self.interface_requests(&mut resolved).await?;
        let assigned = self.assign_addresses(vec![requests]).await?;
        Ok(assigned.into_iter().next().unwrap_or_default())
    }

    async fn interface_requests(
        &self,
        resolved: &mut ResolvedInterface,
    ) -> Result<AttachmentIpRequests, Fault> {
        match AttachmentIpRequests::for_interface(resolved) {
            Err(fault) if self.resolver.refresh_pools(&mut resolved.pod, &fault).await => {
                AttachmentIpRequests::for_interface(resolved)
            }
            requests => requests,
        }
    }

    /// Assigns the addresses of a plan. Either all networks of the sandbox get their addresses or none does.
    pub fn assign_addresses(
        &self,
        ip_requests: Vec<AttachmentIpRequests>,
    ) -> impl Future<Output = Result<Vec<AssignedAddresses>, Fault>> + use<> {
        let allocator = self.allocator.clone();
        async move {
            let names: Vec<_> = ip_requests.iter().map(|attachment| attachment.network.as_str()).collect();
            let what = match names.as_slice() {
                [name] => format!("network {name}"),
                names => format!("networks {}", names.join(", ")),
            };
            let requests = ip_requests.iter().flat_map(|attachment| attachment.requests.clone()).collect();
            let mut addresses = allocator.assign(what, requests).await?.into_iter();
            let build = |attachment: &AttachmentIpRequests| {
                let addresses = addresses.by_ref().take(attachment.requests.len()).collect();
                attachment.build_assigned(addresses)
            };
            Ok(ip_requests.iter().map(build).collect())
        }
    }

    /// Performs a device operation for the CNI plugin. The daemon runs in the host's network namespace, as
    /// the operation requires.
    pub fn run_device_op(&self, operation: &DeviceOp, sandbox: Option<OwnedFd>) -> Result<(), Fault> {
        let hardware = self.hardware.as_deref().ok_or_else(|| ferroband_kernel::Error::NoRdma.fault())?;
        let sandbox = sandbox.map(Netns::from_fd).transpose().map_err(|e| e.fault())?;
        operation.perform(hardware.root(), hardware, sandbox.as_ref()).map_err(|e| e.fault())
    }

    /// Releases the addresses and partition memberships of a sandbox, or of one of its interfaces. On a
    /// fault, the CNI plugin stores a pending release.
    pub async fn release(&self, container: String, interface: Option<String>) -> Result<(), Fault> {
        let what = format!("addresses of sandbox {container}");
        self.partitions.remove_sandbox(&container, interface.as_deref());
        if self
            .allocator
            .release(AddressRelease { container, interface, address: None }, RELEASE_TIMEOUT)
            .await
        {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::ApiUnavailable,
            what,
            "the API server did not confirm the release in time",
            "no action needed; retried automatically when the API server is available",
        ))
    }

    /// Records an event on the pod in the background. Nothing waits for it, because the CNI plugin also
    /// returns the fault.
    pub fn report_failure(&self, pod: Option<&PodRef>, fault: &Fault, runtime: &Handle) {
        let Some(pod) = pod.cloned() else { return };
        let cached = self.resolver.pods.cache().get(&pod.namespace, &pod.name);
        let pod = match cached {
            Some(facts) if !facts.uid.is_empty() => PodRef { uid: facts.uid.clone(), ..pod },
            _ => pod,
        };
        runtime.spawn(self.events.clone().warn(pod, fault.clone()));
    }
}
