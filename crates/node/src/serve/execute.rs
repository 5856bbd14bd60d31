//! Third stage of an ADD: executes the plan together with the CNI plugin.
//!
//! ```text
//! begin ──▶ start address assignment and memberships ── Plan ──▶ CNI plugin creates interfaces
//! wait_for_partitions ──▶ addresses ──▶ record: network-status
//! ```

use super::{CniHandler, device_access, socket::protocol_fault};
use crate::{
    address::DetectionMode,
    build::{AttachmentIpRequests, PlanOutput, fault_in_network},
    caches::PodFacts,
    discover::Inventory,
    kubelet::PodDevices,
};
use ferroband_api::annotation::{IbKubernetesMark, NETWORKS};
use ferroband_attach::{
    DeviceOp,
    message::{AttachmentOutcome, PortMember},
    plan::{AssignedAddresses, Plan, StepKind},
};
use ferroband_kernel::Netns;
use ferroband_model::{Fault, FaultCode, PodRef};
use ferroband_partition::SandboxPartitions;
use std::time::Duration;
use tokio::{runtime::Handle, task::JoinHandle};
use tracing::{info, warn};

const LONGER_THAN_ANY_CALL: Duration = Duration::from_secs(3600);

/// An ADD from its plan to the report of its outcome. All methods block.
pub(super) struct AddSession<'a> {
    pub handler: &'a CniHandler,
    pub runtime: &'a Handle,
    /// The plan that is sent to the CNI plugin.
    pub plan: Plan,
    /// The pod with its UID from the API server.
    pub pod: PodRef,
    pub ip_requests: Vec<AttachmentIpRequests>,
    /// What ib-kubernetes would write into the pod's networks annotation.
    marks: Vec<(usize, IbKubernetesMark)>,
    /// The address assignment, which runs while the CNI plugin creates interfaces. `None` after the plugin
    /// has requested the addresses.
    assigning: Option<JoinHandle<Result<Vec<AssignedAddresses>, Fault>>>,
    pub assigned: Vec<AssignedAddresses>,
    /// All devices that were allocated to the pod.
    devices: PodDevices,
    /// The daemon uses the pod's namespace only to send ARP and NDP probes. The CNI plugin does everything else.
    pub netns: Option<Netns>,
}

impl<'a> AddSession<'a> {
    /// Starts the address assignment and the partition memberships of a plan. A fault rejects the pod before
    /// anything is set up.
    pub fn begin(
        handler: &'a CniHandler,
        runtime: &'a Handle,
        (planned, pod): (PlanOutput, PodRef),
        netns: Option<Netns>,
    ) -> Result<Self, Fault> {
        let PlanOutput { plan, ip_requests, marks, devices } = planned;
        for warning in ip_requests.iter().flat_map(|request| request.ipam.warnings()) {
            warn!(%warning, "a setting of the ipam configuration has no effect");
        }
        let (assigning, assigned) = (None, Vec::new());
        let mut session =
            Self { handler, runtime, plan, pod, ip_requests, marks, assigning, assigned, devices, netns };
        session.check_parents()?;
        session.plan.membership = handler.partitions.begin_add(session.partitions())?;
        let addresses = handler.assign_addresses(session.ip_requests.clone());
        session.assigning = Some(runtime.spawn(addresses));
        Ok(session)
    }

    /// Checks that all IPoIB parents of the plan exist and may be used by the pod, so that the ADD fails before anything
    /// is set up.
    fn check_parents(&self) -> Result<(), Fault> {
        for attachment in &self.plan.attachments {
            for step in &attachment.steps {
                if let StepKind::Ipoib { child, .. } = &step.kind {
                    let parent = self.handler.host.ipoib_parent(&child.parent);
                    let parent = parent.map_err(|e| {
                        fault_in_network(&attachment.network, self.with_interface_names(e.fault()))
                    })?;
                    let root = self.handler.host.root();
                    device_access::check_parent(root, &attachment.network, &parent.name, &self.devices)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that a device operation of this ADD changes only devices of the pod.
    pub fn check_device_op(&self, operation: &DeviceOp) -> Result<(), Fault> {
        device_access::check_device_op(self.handler.host.root(), &self.plan, operation, &self.devices)
    }

    /// If the fault is a missing IPoIB parent, adds the node's interfaces to its remedy.
    fn with_interface_names(&self, fault: Fault) -> Fault {
        if fault.code != FaultCode::NoParent {
            return fault;
        }
        let inventory =
            Inventory::read(self.handler.host.root(), self.handler.host.is_simulated()).unwrap_or_default();
        let names: Vec<&str> = inventory.ipoib_parents().collect();
        if names.is_empty() {
            return fault;
        }
        let remedy = format!("set `master` to one of the node's InfiniBand interfaces: {}", names.join(", "));
        Fault { remedy, ..fault }
    }

    fn partitions(&self) -> SandboxPartitions<'_> {
        let Plan { container, pod, partitions, .. } = &self.plan;
        SandboxPartitions { container, pod, requests: partitions }
    }

    /// Waits until the pod's ports are members of their partitions. Stops waiting if the pod is deleted,
    /// because the kubelet does not tear down the sandbox before the ADD has ended.
    pub fn wait_for_partitions(&self, members: &[PortMember]) -> Result<(), Fault> {
        let guids: Vec<_> =
            members.iter().filter_map(|member| Some((member.attachment, member.guid?))).collect();
        let pod = &self.plan.pod;
        let is_deleted = |facts: &PodFacts| facts.uid == pod.uid && facts.terminating;
        let pods = self.handler.resolver.pods.cache();
        let deleted = pods.wait_for(&pod.namespace, &pod.name, LONGER_THAN_ANY_CALL, is_deleted);
        self.runtime.block_on(async {
            tokio::select! {
                result = self.handler.partitions.wait_until_member(self.partitions(), &guids) => result,
                _ = deleted => Err(Fault::new(
                    FaultCode::PodNotFound,
                    format!("pod {pod}"),
                    "the pod was deleted while waiting for its partitions",
                    "no action needed",
                )),
            }
        })
    }

    /// Returns the addresses of the plan, or `None` if the CNI plugin has already requested them.
    pub fn addresses(&mut self) -> Option<Result<Vec<AssignedAddresses>, Fault>> {
        let assigning = self.assigning.take()?;
        let assigned = match self.runtime.block_on(assigning) {
            Ok(assigned) => assigned,
            Err(e) => return Some(Err(protocol_fault(e.to_string()))),
        };
        let assigned = match (assigned, &self.netns) {
            (Ok(assigned), Some(netns)) if self.handler.probing.has_mode(DetectionMode::Enforce) => {
                self.replace_duplicates(assigned, netns)
            }
            (assigned, _) => assigned,
        };
        if let Ok(assigned) = &assigned {
            self.assigned = assigned.clone();
        }
        Some(assigned)
    }

    /// Writes the results of the CNI plugin to the pod's network-status annotation.
    pub fn record(self, outcomes: &[AttachmentOutcome]) -> Result<(), Fault> {
        let Self { handler, pod, .. } = &self;
        let facts = handler.resolver.pods.cache().get(&pod.namespace, &pod.name);
        let facts = facts.filter(|facts| facts.uid == pod.uid);
        let annotation = facts.as_ref().and_then(|facts| facts.annotations.get(NETWORKS)).map(String::as_str);
        let guids = handler.partitions.function_guids(self.partitions());
        let with_guid = |(attachment, mark): &(usize, IbKubernetesMark)| {
            let (_, guid) = guids.iter().find(|(position, _)| position == attachment)?;
            Some((*attachment, IbKubernetesMark { guid: guid.to_string(), ..mark.clone() }))
        };
        let marks: Vec<_> = self.marks.iter().filter_map(with_guid).collect();
        let marked = annotation.map(|annotation| (annotation, marks.as_slice()));
        self.runtime.block_on(handler.network_status.record(&self.plan, pod, outcomes, marked))?;
        info!("attached");
        self.probe_in_background();
        Ok(())
    }
}
