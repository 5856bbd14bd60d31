//! The plan of one sandbox.

use super::{Chosen, DefaultNetwork, Legacy, Policy, Wanted, attachment, route};
use crate::{
    caches::{Around, Interface, PodFacts},
    kubelet::Devices,
};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, Selection};
use ferroband_attach::plan::{Attachment, Plan};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Everything that a plan follows from, but for the pod's devices.
#[derive(Debug)]
pub struct Given<'a> {
    /// The pod, with the UID that its addresses are kept under.
    pub pod: &'a PodRef,
    /// What the API server knows of it.
    pub facts: &'a PodFacts,
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_IFNAME`: the interface of the default network.
    pub ifname: &'a str,
    /// The default network.
    pub default: &'a DefaultChoice,
    /// `runtimeConfig` as the runtime gave it. It is meant for the default network alone.
    pub runtime_config: &'a Map<String, Value>,
    /// The other networks, in order.
    pub networks: &'a [Chosen],
    /// Where addresses may come from, if a network leaves that to pools.
    pub around: Option<&'a Around>,
    /// What Whereabouts left here.
    pub legacy: &'a Legacy,
}

/// The pod's default network.
#[derive(Clone, Debug)]
pub enum DefaultChoice {
    /// The cluster's.
    Wrapped(DefaultNetwork),
    /// One that the pod asks for in its place.
    Chosen(Box<Chosen>),
}

/// The networks that a pod is to get.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// In place of the cluster's default network.
    pub default: Option<Selection>,
    /// Those that every pod gets, which no pod may be denied.
    pub of_everybody: Vec<Selection>,
    /// Those that this pod asks for.
    pub networks: Vec<Selection>,
}

/// A plan, and the addresses that it needs.
#[derive(Debug)]
pub struct Planned {
    /// What is to be done.
    pub plan: Plan,
    /// Addresses to assign while it is being done.
    pub wanted: Vec<Wanted>,
}

/// The networks that a pod in `namespace` is to get besides the cluster's default one.
pub fn selections(facts: &PodFacts, namespace: &str, policy: &Policy) -> Result<Asked, Fault> {
    let asked = |annotation| facts.annotations.get(annotation).map(String::as_str).unwrap_or_default();
    let networks = Selection::networks(asked(NETWORKS), namespace).map_err(|e| e.fault())?;
    for selection in &networks {
        policy.allow(namespace, selection)?;
    }
    // Not subject to isolation: its networks are the administrator's.
    let default =
        Selection::default_network(asked(DEFAULT_NETWORK), &policy.namespace).map_err(|e| e.fault())?;
    Ok(Asked { default, of_everybody: policy.of_everybody(namespace)?, networks })
}

/// Which of the pod's interfaces `ifname` is, for a plugin that knows its name only.
pub fn interface_of(asked: &Asked, ifname: &str) -> Interface {
    let networks = asked.of_everybody.iter().chain(&asked.networks).enumerate();
    let named = networks.map(|(at, selection)| {
        let name = selection.interface.clone().unwrap_or_else(|| format!("net{}", at + 1));
        Interface { name, position: at + 1, network: Some(selection.display_name()) }
    });
    let default = || Interface {
        name: ifname.to_owned(),
        position: 0,
        network: asked.default.as_ref().map(Selection::display_name),
    };
    named.into_iter().find(|interface| interface.name == ifname).unwrap_or_else(default)
}

/// The UID to know the pod by, or a fault if the runtime means another pod than the API server.
pub fn settle_uid(pod: &PodRef, facts: &PodFacts) -> Result<PodRef, Fault> {
    if pod.uid.is_empty() {
        return Ok(PodRef { uid: facts.uid.clone(), ..pod.clone() });
    }
    if pod.uid == facts.uid || facts.is_static() {
        return Ok(pod.clone());
    }
    Err(Fault::new(
        FaultCode::PodReplaced,
        format!("pod {pod}"),
        format!("the sandbox is for UID {}, but the pod of that name has UID {} now", pod.uid, facts.uid),
        "nothing: the pod was deleted and made again, and the kubelet starts the new one by itself",
    ))
}

/// Make the plan. Networks take their devices from `devices` in the order of the attachments.
pub fn make(given: &Given<'_>, devices: &mut Devices) -> Result<Planned, Fault> {
    let mut asked = Vec::new();
    let default = match given.default {
        DefaultChoice::Wrapped(network) => attachment::wrapped(given, network)?,
        DefaultChoice::Chosen(chosen) => {
            asked.push((0, &chosen.selection));
            attachment::chosen(given, 0, chosen, devices)?
        }
    };
    let mut attachments = vec![default];
    for (position, chosen) in given.networks.iter().enumerate() {
        asked.push((position + 1, &chosen.selection));
        attachments.push(attachment::chosen(given, position + 1, chosen, devices)?);
    }
    refuse_same_names(&attachments)?;
    route::settle(&mut attachments, &asked)?;
    let wanted = attachments
        .iter()
        .enumerate()
        .map(|(position, attachment)| Wanted::of_attachment(given, position, attachment));
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    Ok(Planned { plan: Plan { pod: given.pod.clone(), attachments, membership: false }, wanted })
}

fn refuse_same_names(attachments: &[Attachment]) -> Result<(), Fault> {
    let mut names = HashSet::new();
    for attachment in attachments {
        if !names.insert(attachment.ifname.as_str()) {
            return Err(Fault::new(
                FaultCode::NameTaken,
                format!("network {}", attachment.network),
                format!("interface {} is asked for twice", attachment.ifname),
                "choose another interface name in the annotation",
            ));
        }
    }
    Ok(())
}
