//! The partitions' side of a CNI call.

use super::book::Book;
use super::object::Object;
use super::{Asked, Guids, Port, ports};
use crate::serve::Membership;
use ferroband_api::annotation::Mark;
use ferroband_api::ferroband::{NodeMember, PartitionMode};
use ferroband_attach::{message::Member, plan::Plan};
use ferroband_kernel::Hardware;
use ferroband_model::{Fault, FaultCode, Guid, PodRef};
use ferroband_partition::Key;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tracing::debug;

/// How long an ADD waits. The kubelet waits for two minutes.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often a port's table is looked at.
const PAUSE: Duration = Duration::from_millis(40);

/// Brings the ports of pods into their partitions.
pub struct Partitions {
    object: Arc<Object>,
    hardware: Arc<dyn Hardware>,
    /// The sandbox that is being made for a pod.
    begun: Mutex<HashMap<(String, String), String>>,
    patience: Duration,
    guids: Arc<Guids>,
    runtime: Handle,
}

/// One thing to wait for.
struct Wait {
    asked: Asked,
    /// The member in the book; none for a function that is to be in no partition of ours.
    name: Option<String>,
}

impl Partitions {
    /// By way of `object`.
    pub fn new(object: Arc<Object>, hardware: Arc<dyn Hardware>, guids: Arc<Guids>, runtime: Handle) -> Self {
        Self { object, hardware, begun: Mutex::default(), patience: PATIENCE, guids, runtime }
    }

    fn port(&self, asked: &Asked) -> Option<ports::Seen> {
        match &asked.port {
            Port::Function { pci, .. } => ports::of_function(self.hardware.root(), *pci),
            Port::Parent(parent) => ports::of_parent(self.hardware.as_ref(), parent),
        }
    }

    /// Enters a member as soon as its GUID is known.
    fn enter(&self, pod: &PodRef, container: &str, asked: &Asked, guid: Guid) -> bool {
        let Some(key) = asked.key else { return false };
        let (device, shared) = match &asked.port {
            Port::Function { pci, .. } => (pci.to_string(), false),
            Port::Parent(parent) => {
                let seen = ports::of_parent(self.hardware.as_ref(), parent);
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
        self.object.book().enter(&Book::name(container, &asked.ifname), member)
    }

    /// A GUID that the pod asks for must be free, and is then this function's. Annotations are user input: that a GUID
    /// stands there says nothing about whose it is.
    fn own_guid(&self, container: &str, asked: &Asked) -> Result<(), Fault> {
        let Port::Function { pci, guid: Some(guid) } = asked.port else { return Ok(()) };
        if self.port(asked).is_some_and(|seen| seen.guid == Some(guid)) {
            return Ok(());
        }
        self.runtime.block_on(self.guids.take(container, &asked.ifname, &asked.network, (pci, guid)))
    }

    /// The administrator's word, before anything is made; the cluster daemon, which cannot be gone around, says the same.
    fn admitted(&self, pod: &PodRef, asked: &Asked) -> Result<(), Fault> {
        let Some(key) = asked.key else { return Ok(()) };
        for (_, partition) in self.object.rules.all() {
            let spec = &partition.spec;
            let about = spec.pkey.parse::<Key>() == Ok(key) && spec.mode == PartitionMode::Enforce;
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
    fn look(&self, wait: &Wait) -> Result<Option<String>, Fault> {
        let status = self.object.seen();
        let status = status.as_ref().and_then(|object| object.status.as_ref());
        let waiting = wait.name.as_ref().and_then(|name| status?.waiting.get(name));
        if let Some(waiting) = waiting.filter(|waiting| waiting.refused) {
            return Err(Fault::new(
                FaultCode::InvalidConfig,
                format!("network {}", wait.asked.network),
                waiting.message.clone(),
                "use a partition that the namespace may use; see `ferroband partition show`",
            ));
        }
        let unmanaged = status.is_some_and(|status| status.unmanaged);
        if unmanaged {
            return Ok(None);
        }
        // A key in the table may be that of the pod before, about to go: the cluster daemon must have taken ours up.
        let taken = wait.name.as_ref().is_none_or(|name| {
            let generation = self.object.book().generation(name);
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
        match self.port(&wait.asked) {
            Some(seen) => {
                let wanted = wait.asked.shown();
                let has = wanted.is_none_or(|wanted| seen.pkeys.iter().any(|key| key.value() == wanted));
                if !has {
                    return Ok(Some(heard()));
                }
                // A function that still has a key of who had it before is not to be used yet.
                let own = matches!(wait.asked.port, Port::Function { .. });
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

    async fn wait(&self, plan: &Plan, members: &[Member]) -> Result<(), Fault> {
        let pod = &plan.pod;
        let at = (pod.namespace.clone(), pod.name.clone());
        let container = self.begun.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        let container = container.unwrap_or_default();
        let mut waits = Vec::new();
        let mut entered = false;
        for asked in Asked::of_plan(plan)? {
            let member = members.iter().find(|member| member.attachment == asked.attachment);
            let guid = member.and_then(|member| member.guid).or_else(|| self.port(&asked)?.guid);
            let name = match (asked.key, guid) {
                (None, _) => None,
                (Some(_), Some(guid)) => {
                    entered |= self.enter(pod, &container, &asked, guid);
                    Some(Book::name(&container, &asked.ifname))
                }
                (Some(key), None) => return Err(no_guid(&asked, key)),
            };
            waits.push(Wait { asked, name });
        }
        if entered {
            self.object.changed();
        }
        let end = Instant::now() + self.patience;
        loop {
            let mut missing = None;
            for wait in &waits {
                if let Some(reason) = self.look(wait)? {
                    missing = Some((wait, reason));
                    break;
                }
            }
            let Some((wait, reason)) = missing else {
                debug!(%pod, "is in its partitions");
                return Ok(());
            };
            if Instant::now() >= end {
                return Err(late(pod, &wait.asked, &reason));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Membership for Partitions {
    fn begin(&self, plan: &Plan, container: &str) -> Result<bool, Fault> {
        let all = Asked::of_plan(plan)?;
        let at = (plan.pod.namespace.clone(), plan.pod.name.clone());
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(at, container.to_owned());
        for asked in &all {
            self.admitted(&plan.pod, asked)?;
            self.own_guid(container, asked)?;
        }
        let mut entered = false;
        for asked in &all {
            // The wait starts now, if the GUID is known; one that is to be changed is not.
            let changes = matches!(asked.port, Port::Function { guid: Some(_), .. });
            if let Some(guid) = self.port(asked).and_then(|seen| seen.guid).filter(|_| !changes) {
                entered |= self.enter(&plan.pod, container, asked, guid);
            }
        }
        if entered {
            self.object.changed();
        }
        Ok(!all.is_empty())
    }

    fn await_member<'a>(&'a self, plan: &'a Plan, members: &'a [Member]) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.wait(plan, members))
    }

    fn end(&self, container: &str, interface: Option<&str>) {
        if interface.is_none() {
            self.begun.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, begun| begun != container);
        }
        self.guids.leave(container, interface);
        if self.object.book().leave(container, interface) {
            self.object.changed();
        }
    }

    fn marks(&self, plan: &Plan) -> Vec<(usize, Mark)> {
        let seen = self.object.seen();
        let managed = seen.and_then(|object| object.status.clone()).is_some_and(|status| !status.unmanaged);
        if !managed {
            return Vec::new();
        }
        let at = (plan.pod.namespace.clone(), plan.pod.name.clone());
        let container = self.begun.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        let members = self.object.book().spec().members;
        let mark = |asked: Asked| {
            let Port::Function { .. } = asked.port else { return None };
            let name = Book::name(container.as_deref()?, &asked.ifname);
            let entered = members.get(&name).map(|member| member.guid.clone());
            let guid = entered.or_else(|| Some(self.port(&asked)?.guid?.to_string()))?;
            let steps = &plan.attachments.get(asked.attachment)?.steps;
            let config = steps.iter().map(|step| &step.config).find(|config| config.contains_key("pkey"));
            let pkey = match config.and_then(|config| config.get("pkey")) {
                Some(Value::String(text)) => text.clone(),
                _ => asked.key.map(|key| format!("{:#x}", key.number())).unwrap_or_default(),
            };
            let able =
                |config: &Map<String, Value>| config.get("capabilities")?.get("infinibandGUID")?.as_bool();
            let capable = steps.iter().any(|step| able(&step.config) == Some(true));
            Some((asked.attachment, Mark { position: 0, guid, pkey, capable }))
        };
        Asked::of_plan(plan).unwrap_or_default().into_iter().filter_map(mark).collect()
    }

    fn held(&self) -> Vec<(String, String)> {
        self.object.book().held()
    }
}

fn no_guid(asked: &Asked, key: Key) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("network {}", asked.network),
        format!("the port behind {} has no GUID, so it cannot be in partition {key}", asked.ifname),
        "see that the function has a GUID (ip link show) and that the adapter's driver is up",
    )
}

fn late(pod: &PodRef, asked: &Asked, reason: &str) -> Fault {
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
        let asked = Asked {
            attachment: 1,
            network: "default/red".into(),
            ifname: "net1".into(),
            key: Key::new(0x3e8),
            limited: false,
            port: Port::Function { pci, guid: None },
        };
        let fault = late(&pod, &asked, "2 attempts failed, the last with: connection refused");
        let text = fault.to_string();
        for word in ["a/p", "default/red", "0x03e8", "net1", "2 attempts", "connection refused"] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        assert_eq!(fault.code, FaultCode::PortNotReady);
    }
}
