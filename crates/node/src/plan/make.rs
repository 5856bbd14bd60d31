//! The plan of one sandbox.

use super::{
    AttachmentIpRequests, DefaultNetwork, NetworkAccessPolicy, ResolvedNetwork, WhereaboutsLegacy,
    attachment, route,
};
use crate::{
    caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface},
    kubelet::PodDevices,
};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_attach::plan::{Attachment, Plan};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Everything that a plan follows from, but for the pod's devices.
#[derive(Debug)]
pub struct PlanInput<'a> {
    /// The pod, with the UID that its addresses are kept under.
    pub pod: &'a PodRef,
    /// What the API server knows of it.
    pub facts: &'a PodFacts,
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// `CNI_IFNAME`: the interface of the default network.
    pub ifname: &'a str,
    /// The default network.
    pub default: &'a DefaultNetworkChoice,
    /// `runtimeConfig` as the runtime gave it. It is meant for the default network alone.
    pub runtime_config: &'a Map<String, Value>,
    /// The other networks, in order.
    pub networks: &'a [ResolvedNetwork],
    /// Where addresses may come from, if a network leaves that to pools.
    pub spiderpool_context: Option<&'a PoolSelectionInput>,
    /// What Whereabouts left here.
    pub legacy: &'a WhereaboutsLegacy,
}

/// The pod's default network.
#[derive(Clone, Debug)]
pub enum DefaultNetworkChoice {
    /// The cluster's.
    Wrapped(DefaultNetwork),
    /// One that the pod asks for in its place.
    Resolved(Box<ResolvedNetwork>),
}

/// The networks that a pod is to get.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedNetworks {
    /// In place of the cluster's default network.
    pub default: Option<NetworkSelection>,
    /// Those that every pod gets, which no pod may be denied.
    pub cluster_wide: Vec<NetworkSelection>,
    /// Those that this pod asks for.
    pub networks: Vec<NetworkSelection>,
}

/// A plan, and the addresses that it needs.
#[derive(Debug)]
pub struct PlanOutput {
    /// What is to be done.
    pub plan: Plan,
    /// Addresses to assign while it is being done.
    pub ip_requests: Vec<AttachmentIpRequests>,
}

/// The networks that a pod in `namespace` is to get besides the cluster's default one.
pub fn requested_networks(
    facts: &PodFacts,
    namespace: &str,
    policy: &NetworkAccessPolicy,
) -> Result<RequestedNetworks, Fault> {
    let asked = |annotation| facts.annotations.get(annotation).map(String::as_str).unwrap_or_default();
    let networks = NetworkSelection::parse_networks(asked(NETWORKS), namespace).map_err(|e| e.fault())?;
    for selection in &networks {
        policy.check_allowed(namespace, selection)?;
    }
    // Not subject to isolation: its networks are the administrator's.
    let default = NetworkSelection::parse_default_network(asked(DEFAULT_NETWORK), &policy.namespace)
        .map_err(|e| e.fault())?;
    Ok(RequestedNetworks { default, cluster_wide: policy.cluster_wide_networks(namespace)?, networks })
}

/// Which of the pod's interfaces `ifname` is, for a plugin that knows its name only.
pub fn find_interface(asked: &RequestedNetworks, ifname: &str) -> SpiderpoolInterface {
    let networks = asked.cluster_wide.iter().chain(&asked.networks).enumerate();
    let named = networks.map(|(at, selection)| {
        let name = selection.interface.clone().unwrap_or_else(|| format!("net{}", at + 1));
        SpiderpoolInterface { name, position: at + 1, network: Some(selection.display_name()) }
    });
    let default = || SpiderpoolInterface {
        name: ifname.to_owned(),
        position: 0,
        network: asked.default.as_ref().map(NetworkSelection::display_name),
    };
    named.into_iter().find(|interface| interface.name == ifname).unwrap_or_else(default)
}

/// The UID to know the pod by, or a fault if the runtime means another pod than the API server.
pub fn resolve_uid(pod: &PodRef, facts: &PodFacts) -> Result<PodRef, Fault> {
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
pub fn build_plan(given: &PlanInput<'_>, devices: &mut PodDevices) -> Result<PlanOutput, Fault> {
    let mut asked = Vec::new();
    let default = match given.default {
        DefaultNetworkChoice::Wrapped(network) => attachment::build_wrapped(given, network)?,
        DefaultNetworkChoice::Resolved(chosen) => {
            asked.push((0, &chosen.selection));
            attachment::build_resolved(given, 0, chosen, devices)?
        }
    };
    let mut attachments = vec![default];
    for (position, chosen) in given.networks.iter().enumerate() {
        asked.push((position + 1, &chosen.selection));
        attachments.push(attachment::build_resolved(given, position + 1, chosen, devices)?);
    }
    check_unique_ifnames(&attachments)?;
    route::set_default_routes(&mut attachments, &asked)?;
    let wanted = attachments
        .iter()
        .enumerate()
        .map(|(position, attachment)| AttachmentIpRequests::for_attachment(given, position, attachment));
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    Ok(PlanOutput {
        plan: Plan { pod: given.pod.clone(), attachments, membership: false },
        ip_requests: wanted,
    })
}

fn check_unique_ifnames(attachments: &[Attachment]) -> Result<(), Fault> {
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
