//! The partitions' side of a CNI call.

use super::node_partitions_state::NodePartitionsState;
use super::node_partitions_sync::NodePartitionsSync;
use super::{GuidLeaseManager, PodPartitionRequest, RequestedPort, ports};
use crate::serve::PartitionManager;
use ferroband_api::annotation::IbKubernetesMark;
use ferroband_api::ferroband::{NodeMember, PartitionMode};
use ferroband_attach::{message::PortMember, plan::Plan};
use ferroband_kernel::Hardware;
use ferroband_model::{Fault, FaultCode, Guid, PodRef};
use ferroband_partition::PKeyBase;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tracing::debug;

/// How long an ADD waits. The kubelet waits for two minutes.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(45);
/// How often a port's table is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Brings the ports of pods into their partitions.
pub struct NodePartitionMembership {
    sync: Arc<NodePartitionsSync>,
    hardware: Arc<dyn Hardware>,
    /// The sandbox that is being made for a pod.
    sandbox_by_pod: Mutex<HashMap<(String, String), String>>,
    timeout: Duration,
    guids: Arc<GuidLeaseManager>,
    runtime: Handle,
}

/// One thing to wait for.
struct MembershipWait {
    request: PodPartitionRequest,
    /// The member in the book; none for a function that is to be in no partition of ours.
    member_name: Option<String>,
}

impl NodePartitionMembership {
    /// By way of `object`.
    pub fn new(
        object: Arc<NodePartitionsSync>,
        hardware: Arc<dyn Hardware>,
        guids: Arc<GuidLeaseManager>,
        runtime: Handle,
    ) -> Self {
        Self {
            sync: object,
            hardware,
            sandbox_by_pod: Mutex::default(),
            timeout: MEMBER_TIMEOUT,
            guids,
            runtime,
        }
    }

    fn read_port(&self, asked: &PodPartitionRequest) -> Option<ports::ObservedRdmaPort> {
        match &asked.port {
            RequestedPort::Function { pci, .. } => ports::read_function_port(self.hardware.root(), *pci),
            RequestedPort::Parent(parent) => ports::read_parent_port(self.hardware.as_ref(), parent),
        }
    }

    /// Enters a member as soon as its GUID is known.
    fn add_member(&self, pod: &PodRef, container: &str, asked: &PodPartitionRequest, guid: Guid) -> bool {
        let Some(key) = asked.key else { return false };
        let (device, shared) = match &asked.port {
            RequestedPort::Function { pci, .. } => (pci.to_string(), false),
            RequestedPort::Parent(parent) => {
                let seen = ports::read_parent_port(self.hardware.as_ref(), parent);
                (seen.map_or_else(|| parent.clone(), |seen| seen.pci.to_string()), true)
            }
        };
        let member = NodeMember {
            device,
            guid: guid.to_string(),
            pkey: key.to_string(),
            limited: asked.limited,
            shared,
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            network: asked.network.clone(),
        };
        self.sync.state().add_member(&NodePartitionsState::member_name(container, &asked.ifname), member)
    }

    /// A GUID that the pod asks for must be free, and is then this function's. Annotations are user input: that a GUID
    /// stands there says nothing about whose it is.
    fn claim_requested_guid(&self, container: &str, asked: &PodPartitionRequest) -> Result<(), Fault> {
        let RequestedPort::Function { pci, guid: Some(guid) } = asked.port else { return Ok(()) };
        if self.read_port(asked).is_some_and(|seen| seen.guid == Some(guid)) {
            return Ok(());
        }
        self.runtime.block_on(self.guids.acquire(container, &asked.ifname, &asked.network, (pci, guid)))
    }

    /// The administrator's word, before anything is made; the cluster daemon, which cannot be gone around, says the same.
    fn check_admitted(&self, pod: &PodRef, asked: &PodPartitionRequest) -> Result<(), Fault> {
        let Some(key) = asked.key else { return Ok(()) };
        for (_, partition) in self.sync.partitions.list() {
            let spec = &partition.spec;
            let about = spec.pkey.parse::<PKeyBase>() == Ok(key) && spec.mode == PartitionMode::Enforce;
            let admitted =
                spec.namespaces.iter().any(|namespace| namespace == "*" || *namespace == pod.namespace);
            if about && !admitted {
                return Err(Fault::new(
                    FaultCode::InvalidConfig,
                    format!("network {}", asked.network),
                    format!("namespace {} may not use partition {key}", pod.namespace),
                    format!(
                        "ask the administrator of the fabric, who wrote the Partition objects, to admit it to {key}"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether it is so; a fault if it never will be; else what is missing.
    fn find_missing(&self, wait: &MembershipWait) -> Result<Option<String>, Fault> {
        let status = self.sync.current_object();
        let status = status.as_ref().and_then(|object| object.status.as_ref());
        let waiting = wait.member_name.as_ref().and_then(|name| status?.waiting.get(name));
        if let Some(waiting) = waiting.filter(|waiting| waiting.refused) {
            return Err(Fault::new(
                FaultCode::InvalidConfig,
                format!("network {}", wait.request.network),
                waiting.message.clone(),
                "use a partition that the namespace may use; see `ferroband partition show`",
            ));
        }
        let unmanaged = status.is_some_and(|status| status.unmanaged);
        if unmanaged {
            return Ok(None);
        }
        // A key in the table may be that of the pod before, about to go: the cluster daemon must have taken ours up.
        let taken = wait.member_name.as_ref().is_none_or(|name| {
            let generation = self.sync.state().first_generation(name);
            status.zip(generation).is_some_and(|(status, at)| status.observed_generation >= at)
        });
        let heard = || match waiting {
            Some(waiting) if waiting.message.is_empty() => "the subnet manager is being told".to_owned(),
            Some(waiting) => {
                format!("{} attempts failed, the last with: {}", waiting.attempts, waiting.message)
            }
            None if !taken => "the cluster daemon has not taken it up".to_owned(),
            None => "the subnet manager has it, but the port's table does not show it".to_owned(),
        };
        if !taken || waiting.is_some() {
            return Ok(Some(heard()));
        }
        match self.read_port(&wait.request) {
            Some(seen) => {
                let wanted = wait.request.table_value();
                let has = wanted.is_none_or(|wanted| seen.pkeys.iter().any(|key| key.value() == wanted));
                if !has {
                    return Ok(Some(heard()));
                }
                // A function that still has a key of who had it before is not to be used yet.
                let own = matches!(wait.request.port, RequestedPort::Function { .. });
                let stale = seen.pkeys.iter().find(|key| key.base() != 0x7fff && Some(key.value()) != wanted);
                match stale.filter(|_| own && status.is_some()) {
                    Some(key) => Ok(Some(format!("its table still has {key} of an earlier pod"))),
                    None => Ok(None),
                }
            }
            // The device is in the pod's namespace: the subnet manager's word has to do.
            None => Ok(None),
        }
    }

    async fn wait_for_members(&self, plan: &Plan, members: &[PortMember]) -> Result<(), Fault> {
        let pod = &plan.pod;
        let at = (pod.namespace.clone(), pod.name.clone());
        let container = self.sandbox_by_pod.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        let container = container.unwrap_or_default();
        let mut waits = Vec::new();
        let mut entered = false;
        for asked in PodPartitionRequest::from_plan(plan)? {
            let member = members.iter().find(|member| member.attachment == asked.attachment);
            let guid = member.and_then(|member| member.guid).or_else(|| self.read_port(&asked)?.guid);
            let name = match (asked.key, guid) {
                (None, _) => None,
                (Some(_), Some(guid)) => {
                    entered |= self.add_member(pod, &container, &asked, guid);
                    Some(NodePartitionsState::member_name(&container, &asked.ifname))
                }
                (Some(key), None) => return Err(no_guid_fault(&asked, key)),
            };
            waits.push(MembershipWait { request: asked, member_name: name });
        }
        if entered {
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
                debug!(%pod, "is in its partitions");
                return Ok(());
            };
            if Instant::now() >= end {
                return Err(timeout_fault(pod, &wait.request, &reason));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl PartitionManager for NodePartitionMembership {
    fn begin_add(&self, plan: &Plan, container: &str) -> Result<bool, Fault> {
        let all = PodPartitionRequest::from_plan(plan)?;
        let at = (plan.pod.namespace.clone(), plan.pod.name.clone());
        self.sandbox_by_pod.lock().unwrap_or_else(PoisonError::into_inner).insert(at, container.to_owned());
        for asked in &all {
            self.check_admitted(&plan.pod, asked)?;
            self.claim_requested_guid(container, asked)?;
        }
        let mut entered = false;
        for asked in &all {
            // The wait starts now, if the GUID is known; one that is to be changed is not.
            let changes = matches!(asked.port, RequestedPort::Function { guid: Some(_), .. });
            if let Some(guid) = self.read_port(asked).and_then(|seen| seen.guid).filter(|_| !changes) {
                entered |= self.add_member(&plan.pod, container, asked, guid);
            }
        }
        if entered {
            self.sync.notify_changed();
        }
        Ok(!all.is_empty())
    }

    fn wait_until_member<'a>(
        &'a self,
        plan: &'a Plan,
        members: &'a [PortMember],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.wait_for_members(plan, members))
    }

    fn remove_sandbox(&self, container: &str, interface: Option<&str>) {
        if interface.is_none() {
            self.sandbox_by_pod
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|_, begun| begun != container);
        }
        self.guids.remove_sandbox(container, interface);
        if self.sync.state().remove_members(container, interface) {
            self.sync.notify_changed();
        }
    }

    fn annotation_marks(&self, plan: &Plan) -> Vec<(usize, IbKubernetesMark)> {
        let seen = self.sync.current_object();
        let managed = seen.and_then(|object| object.status.clone()).is_some_and(|status| !status.unmanaged);
        if !managed {
            return Vec::new();
        }
        let at = (plan.pod.namespace.clone(), plan.pod.name.clone());
        let container = self.sandbox_by_pod.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        let members = self.sync.state().spec().members;
        let mark = |asked: PodPartitionRequest| {
            let RequestedPort::Function { .. } = asked.port else { return None };
            let name = NodePartitionsState::member_name(container.as_deref()?, &asked.ifname);
            let entered = members.get(&name).map(|member| member.guid.clone());
            let guid = entered.or_else(|| Some(self.read_port(&asked)?.guid?.to_string()))?;
            let steps = &plan.attachments.get(asked.attachment)?.steps;
            let config = steps.iter().map(|step| &step.config).find(|config| config.contains_key("pkey"));
            let pkey = match config.and_then(|config| config.get("pkey")) {
                Some(Value::String(text)) => text.clone(),
                _ => asked.key.map(|key| format!("{:#x}", key.number())).unwrap_or_default(),
            };
            let able =
                |config: &Map<String, Value>| config.get("capabilities")?.get("infinibandGUID")?.as_bool();
            let capable = steps.iter().any(|step| able(&step.config) == Some(true));
            Some((
                asked.attachment,
                IbKubernetesMark { position: 0, guid, pkey, has_guid_capability: capable },
            ))
        };
        PodPartitionRequest::from_plan(plan).unwrap_or_default().into_iter().filter_map(mark).collect()
    }

    fn list_sandboxes(&self) -> Vec<(String, String)> {
        self.sync.state().list_sandboxes()
    }
}

fn no_guid_fault(asked: &PodPartitionRequest, key: PKeyBase) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("network {}", asked.network),
        format!("the port behind {} has no GUID, so it cannot be in partition {key}", asked.ifname),
        "see that the function has a GUID (ip link show) and that the adapter's driver is up",
    )
}

fn timeout_fault(pod: &PodRef, asked: &PodPartitionRequest, reason: &str) -> Fault {
    let what = match asked.key {
        Some(key) => format!("partition {key} for {} of pod {pod}, network {}", asked.ifname, asked.network),
        None => format!("the function for {} of pod {pod}, network {}", asked.ifname, asked.network),
    };
    Fault::new(
        FaultCode::PortNotReady,
        what,
        reason.to_owned(),
        "nothing, if the subnet manager is only away: the kubelet tries again; else see `kubectl get fabrics -o yaml`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_model::PciAddress;

    #[test]
    fn case_64_who_waits_too_long_is_told_pod_network_and_step() {
        let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into() };
        let pci: PciAddress = "0000:3b:00.2".parse().unwrap();
        let asked = PodPartitionRequest {
            attachment: 1,
            network: "default/red".into(),
            ifname: "net1".into(),
            key: PKeyBase::new(0x3e8),
            limited: false,
            port: RequestedPort::Function { pci, guid: None },
        };
        let fault = timeout_fault(&pod, &asked, "2 attempts failed, the last with: connection refused");
        let text = fault.to_string();
        for word in ["a/p", "default/red", "0x03e8", "net1", "2 attempts", "connection refused"] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        assert_eq!(fault.code, FaultCode::PortNotReady);
    }
}
