//! Makes pods' ports members of their partitions during an ADD and removes them during a DEL.

use super::node_partitions_state::NodePartitionsState;
use super::node_partitions_sync::NodePartitionsSync;
use super::{RequestedGuids, ports};
use ferroband_api::ferroband::{NodeMember, PartitionMode};
use ferroband_daemon::{TenantPolicy, UnlistedPartitions};
use ferroband_kernel::Hardware;
use ferroband_model::{Fault, FaultCode, Guid, PodPartitionRequest, PodRef, RequestedPKey, RequestedPort};
use ferroband_partition::{PartitionMembership, SandboxPartitions};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tracing::debug;

/// How long an ADD waits until the pod's ports are members of their partitions. The kubelet allows an ADD two
/// minutes.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(45);
/// How often the port's P_Key table is read while an ADD waits for membership.
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Implements [`PartitionMembership`] with this node's NodePartitions object.
pub struct NodePartitionMembership {
    sync: Arc<NodePartitionsSync>,
    hardware: Arc<dyn Hardware>,
    timeout: Duration,
    guids: Arc<RequestedGuids>,
    tenants: TenantPolicy,
    runtime: Handle,
}

struct MembershipWait<'a> {
    request: &'a PodPartitionRequest,
    /// Name of the partition member in NodePartitions; `None` for a function that must not be in any managed
    /// partition.
    member_name: Option<String>,
}

impl NodePartitionMembership {
    pub fn new(
        sync: Arc<NodePartitionsSync>,
        hardware: Arc<dyn Hardware>,
        guids: Arc<RequestedGuids>,
        tenants: TenantPolicy,
        runtime: Handle,
    ) -> Self {
        Self { sync, hardware, timeout: MEMBER_TIMEOUT, guids, tenants, runtime }
    }

    fn read_port(&self, request: &PodPartitionRequest) -> Option<ports::ObservedRdmaPort> {
        match &request.port {
            RequestedPort::Function { pci, .. } => ports::read_function_port(self.hardware.root(), *pci),
            RequestedPort::Parent(parent) => ports::read_parent_port(self.hardware.as_ref(), parent),
        }
    }

    /// Adds the requested port, with this GUID, to the partition members in the node's desired state. Returns
    /// whether that state changed.
    fn add_member(&self, sandbox: SandboxPartitions<'_>, request: &PodPartitionRequest, guid: Guid) -> bool {
        let SandboxPartitions { container, pod, .. } = sandbox;
        let Some(key) = request.pkey else { return false };
        let (device, shared) = match &request.port {
            RequestedPort::Function { pci, .. } => (pci.to_string(), false),
            RequestedPort::Parent(parent) => {
                let port = ports::read_parent_port(self.hardware.as_ref(), parent);
                (port.map_or_else(|| parent.clone(), |port| port.pci.to_string()), true)
            }
        };
        let member = NodeMember {
            device,
            guid: guid.to_string(),
            pkey: key.to_string(),
            limited: request.limited,
            shared,
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            network: request.network.clone(),
        };
        self.sync.state().add_member(&NodePartitionsState::member_name(container, &request.ifname), member)
    }

    /// Claims the GUID that the pod requests, if any, unless the port already has it. Annotations are user
    /// input, so a GUID that another function uses is rejected.
    fn claim_requested_guid(&self, container: &str, request: &PodPartitionRequest) -> Result<(), Fault> {
        let RequestedPort::Function { pci, guid: Some(guid) } = request.port else { return Ok(()) };
        if self.read_port(request).is_some_and(|port| port.guid == Some(guid)) {
            return Ok(());
        }
        self.runtime.block_on(self.guids.acquire(container, &request.ifname, &request.network, (pci, guid)))
    }

    /// Checks whether the Partition objects admit the pod, so that it is rejected before anything is set up.
    /// The cluster daemon enforces the same rules and cannot be bypassed.
    fn check_admitted(&self, pod: &PodRef, request: &PodPartitionRequest) -> Result<(), Fault> {
        let Some(key) = request.pkey else { return Ok(()) };
        let mut is_listed = false;
        for (_, partition) in self.sync.partitions.list() {
            let spec = &partition.spec;
            if spec.pkey.parse::<RequestedPKey>() != Ok(key) {
                continue;
            }
            is_listed = true;
            let is_enforced = spec.mode == PartitionMode::Enforce;
            let admitted =
                spec.namespaces.iter().any(|namespace| namespace == "*" || *namespace == pod.namespace);
            if is_enforced && !admitted {
                return Err(Fault::new(
                    FaultCode::InvalidConfig,
                    format!("network {}", request.network),
                    format!("namespace {} may not use partition {key}", pod.namespace),
                    format!(
                        "ask the fabric administrator to add the namespace to the Partition object of {key}"
                    ),
                ));
            }
        }
        let refuses_unlisted = self.tenants.unlisted_partitions == UnlistedPartitions::Refuse
            && !self.tenants.is_trusted_network(&request.network);
        match refuses_unlisted && !is_listed {
            true => Err(Fault::new(
                FaultCode::InvalidConfig,
                format!("network {}", request.network),
                format!("no Partition object lists the P_Key {key} (partitions.unlisted: refuse)"),
                format!("ask the fabric administrator for a Partition object that admits {}", pod.namespace),
            )),
            false => Ok(()),
        }
    }

    /// Returns why the port is not a member of its partition yet, `None` if it is a member, or a fault if it
    /// can never become one.
    fn find_missing(&self, wait: &MembershipWait<'_>) -> Result<Option<String>, Fault> {
        let status = self.sync.current_object();
        let status = status.as_ref().and_then(|object| object.status.as_ref());
        let waiting = wait.member_name.as_ref().and_then(|name| status?.waiting.get(name));
        if let Some(waiting) = waiting.filter(|waiting| waiting.refused) {
            return Err(Fault::new(
                FaultCode::InvalidConfig,
                format!("network {}", wait.request.network),
                waiting.message.clone(),
                "use a partition that admits the namespace; see `ferroband partition show`",
            ));
        }
        let unmanaged = status.is_some_and(|status| status.unmanaged);
        if unmanaged {
            return Ok(None);
        }
        // The P_Key table may still contain the same key from an earlier pod, which the subnet manager is
        // about to remove. So the P_Key table is checked only after the cluster daemon has observed the
        // membership of this pod.
        let observed = wait.member_name.as_ref().is_none_or(|name| {
            let generation = self.sync.state().first_generation(name);
            status
                .zip(generation)
                .is_some_and(|(status, generation)| status.observed_generation >= generation)
        });
        let pending_reason = || match waiting {
            Some(waiting) if waiting.message.is_empty() => "the subnet manager is being updated".to_owned(),
            Some(waiting) => {
                format!(
                    "{} attempts to update the subnet manager failed, last error: {}",
                    waiting.attempts, waiting.message
                )
            }
            None if !observed => "the cluster daemon has not processed the membership yet".to_owned(),
            None => "the subnet manager is configured, but the key is not in the port's P_Key table yet"
                .to_owned(),
        };
        if !observed || waiting.is_some() {
            return Ok(Some(pending_reason()));
        }
        match self.read_port(wait.request) {
            Some(port) => {
                let expected = wait.request.table_entry();
                let has_key = expected.is_none_or(|expected| port.pkeys.contains(&expected));
                if !has_key {
                    return Ok(Some(pending_reason()));
                }
                // A virtual function that still has the P_Key of an earlier pod must not be used yet.
                let is_function = matches!(wait.request.port, RequestedPort::Function { .. });
                let stale = port.pkeys.iter().find(|key| key.base() != 0x7fff && Some(**key) != expected);
                match stale.filter(|_| is_function && status.is_some()) {
                    Some(key) => Ok(Some(format!("the P_Key table still contains {key} of an earlier pod"))),
                    None => Ok(None),
                }
            }
            // The device is in the pod's network namespace, so the host cannot read its P_Key table. The
            // status of NodePartitions, which was checked above, must suffice.
            None => Ok(None),
        }
    }

    async fn wait_for_members(
        &self,
        sandbox: SandboxPartitions<'_>,
        guids: &[(usize, Guid)],
    ) -> Result<(), Fault> {
        let SandboxPartitions { container, pod, requests } = sandbox;
        let mut waits = Vec::new();
        let mut added = false;
        for request in requests {
            let reported = guids.iter().find(|(attachment, _)| *attachment == request.attachment);
            let guid = reported.map(|(_, guid)| *guid).or_else(|| self.read_port(request)?.guid);
            let name = match (request.pkey, guid) {
                (None, _) => None,
                (Some(_), Some(guid)) => {
                    added |= self.add_member(sandbox, request, guid);
                    Some(NodePartitionsState::member_name(container, &request.ifname))
                }
                (Some(key), None) => return Err(no_guid_fault(request, key)),
            };
            waits.push(MembershipWait { request, member_name: name });
        }
        if added {
            self.sync.notify_changed();
        }
        let end = Instant::now() + self.timeout;
        loop {
            let mut missing = None;
            for wait in &waits {
                if let Some(reason) = self.find_missing(wait)? {
                    missing = Some((wait, reason));
                    break;
                }
            }
            let Some((wait, reason)) = missing else {
                debug!(%pod, "pod is a member of its partitions");
                return Ok(());
            };
            if Instant::now() >= end {
                return Err(timeout_fault(pod, wait.request, &reason));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl PartitionMembership for NodePartitionMembership {
    fn begin_add(&self, sandbox: SandboxPartitions<'_>) -> Result<bool, Fault> {
        let SandboxPartitions { container, pod, requests } = sandbox;
        for request in requests {
            self.check_admitted(pod, request)?;
            self.claim_requested_guid(container, request)?;
        }
        let mut added = false;
        for request in requests {
            // Add the member now if the port's GUID is final. If the pod requests a GUID, the port does not
            // have that GUID yet, and the member is added when the CNI plugin reports that it is set.
            let changes = matches!(request.port, RequestedPort::Function { guid: Some(_), .. });
            if let Some(guid) = self.read_port(request).and_then(|port| port.guid).filter(|_| !changes) {
                added |= self.add_member(sandbox, request, guid);
            }
        }
        if added {
            self.sync.notify_changed();
        }
        Ok(!requests.is_empty())
    }

    fn wait_until_member<'a>(
        &'a self,
        sandbox: SandboxPartitions<'a>,
        guids: &'a [(usize, Guid)],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.wait_for_members(sandbox, guids))
    }

    fn remove_sandbox(&self, container: &str, interface: Option<&str>) {
        self.guids.remove_sandbox(container, interface);
        if self.sync.state().remove_members(container, interface) {
            self.sync.notify_changed();
        }
    }

    fn function_guids(&self, sandbox: SandboxPartitions<'_>) -> Vec<(usize, Guid)> {
        let object = self.sync.current_object();
        let managed = object.and_then(|object| object.status.clone()).is_some_and(|status| !status.unmanaged);
        if !managed {
            return Vec::new();
        }
        let members = self.sync.state().spec().members;
        let guid = |request: &PodPartitionRequest| {
            let RequestedPort::Function { .. } = request.port else { return None };
            let member = members.get(&NodePartitionsState::member_name(sandbox.container, &request.ifname));
            let recorded = member.and_then(|member| member.guid.parse().ok());
            Some((request.attachment, recorded.or_else(|| self.read_port(request)?.guid)?))
        };
        sandbox.requests.iter().filter_map(guid).collect()
    }

    fn list_sandboxes(&self) -> Vec<(String, String)> {
        self.sync.state().list_sandboxes()
    }
}

fn no_guid_fault(request: &PodPartitionRequest, key: RequestedPKey) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("network {}", request.network),
        format!(
            "the port of interface {} has no GUID, so it cannot be a member of partition {key}",
            request.ifname
        ),
        "check that the virtual function has a GUID (ip link show) and that its driver is bound",
    )
}

fn timeout_fault(pod: &PodRef, request: &PodPartitionRequest, reason: &str) -> Fault {
    let what = match request.pkey {
        Some(key) => {
            format!(
                "partition {key} for interface {} of pod {pod}, network {}",
                request.ifname, request.network
            )
        }
        None => format!(
            "virtual function for interface {} of pod {pod}, network {}",
            request.ifname, request.network
        ),
    };
    Fault::new(
        FaultCode::PortNotReady,
        what,
        reason.to_owned(),
        "the kubelet retries; if this persists, check the subnet manager with `kubectl get fabrics -o yaml`",
    )
}

#[cfg(test)]
mod tests;
