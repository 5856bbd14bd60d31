//! Determines the networks of a pod and builds the plan of its sandbox.

use super::{
    AttachmentIpRequests, DefaultNetwork, NetworkAccessPolicy, ResolvedNetwork, WhereaboutsLegacy,
    attachment,
    partition::{ib_kubernetes_marks, partition_requests},
    route,
};
use crate::{
    caches::{PodFacts, PoolSelectionInput, SpiderpoolInterface},
    kubelet::PodDevices,
};
use ferroband_api::annotation::{DEFAULT_NETWORK, IbKubernetesMark, NETWORKS, NetworkSelection};
use ferroband_attach::plan::{Attachment, Plan};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Everything that a plan is computed from, except the pod's devices.
#[derive(Debug)]
pub struct PlanInput<'a> {
    /// The pod. Its UID identifies the owner of the addresses that are assigned to it.
    pub pod: &'a PodRef,
    /// Annotations and other fields of the pod's object in the API server.
    pub facts: &'a PodFacts,
    pub container: &'a str,
    /// `CNI_IFNAME`: the interface of the default network.
    pub ifname: &'a str,
    pub default: &'a DefaultNetworkChoice,
    /// `runtimeConfig` of the CNI call. It applies to the default network only.
    pub runtime_config: &'a Map<String, Value>,
    /// The additional networks, in the order of their interfaces.
    pub networks: &'a [ResolvedNetwork],
    /// SpiderIPPools and related objects. Required if the addresses of a network come from SpiderIPPools.
    pub spiderpool_context: Option<&'a PoolSelectionInput>,
    pub legacy: &'a WhereaboutsLegacy,
}

/// The network of the interface `CNI_IFNAME`.
#[derive(Clone, Debug)]
pub enum DefaultNetworkChoice {
    /// The cluster's default network, which Ferroband wraps.
    Wrapped(DefaultNetwork),
    /// A network from a NetworkAttachmentDefinition, which replaces the cluster's default network.
    Resolved(Box<ResolvedNetwork>),
}

/// The networks that a pod gets from annotations and from the cluster-wide settings.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedNetworks {
    /// Network that the annotation `v1.multus-cni.io/default-network` names, which replaces the cluster's
    /// default network.
    pub default: Option<NetworkSelection>,
    /// Networks that every pod gets, which are exempt from namespace isolation.
    pub cluster_wide: Vec<NetworkSelection>,
    /// Networks that the pod's annotation `k8s.v1.cni.cncf.io/networks` names.
    pub networks: Vec<NetworkSelection>,
}

#[derive(Debug)]
pub struct PlanOutput {
    pub plan: Plan,
    /// Requests for the addresses that are assigned while the plan is being executed.
    pub ip_requests: Vec<AttachmentIpRequests>,
    /// What ib-kubernetes would write into the networks annotation, by position of the attachment; without GUIDs.
    pub marks: Vec<(usize, IbKubernetesMark)>,
}

/// Returns the networks that a pod in `namespace` gets besides the cluster's default network.
pub fn requested_networks(
    facts: &PodFacts,
    namespace: &str,
    policy: &NetworkAccessPolicy,
) -> Result<RequestedNetworks, Fault> {
    let annotation_value =
        |annotation| facts.annotations.get(annotation).map(String::as_str).unwrap_or_default();
    let networks =
        NetworkSelection::parse_networks(annotation_value(NETWORKS), namespace).map_err(|e| e.fault())?;
    for selection in &networks {
        policy.check_allowed(namespace, selection)?;
    }
    // The default network is not subject to isolation, because the administrator controls its namespace.
    let default =
        NetworkSelection::parse_default_network(annotation_value(DEFAULT_NETWORK), &policy.namespace)
            .map_err(|e| e.fault())?;
    Ok(RequestedNetworks { default, cluster_wide: policy.cluster_wide_networks(namespace)?, networks })
}

/// Returns the position and network of the pod's interface `ifname`, for a plugin that only knows the
/// interface name. If no network has this interface, `ifname` counts as the default interface.
pub fn find_interface(requested: &RequestedNetworks, ifname: &str) -> SpiderpoolInterface {
    let networks = requested.cluster_wide.iter().chain(&requested.networks).enumerate();
    let named = networks.map(|(at, selection)| {
        let name = selection.interface.clone().unwrap_or_else(|| format!("net{}", at + 1));
        SpiderpoolInterface { name, position: at + 1, network: Some(selection.display_name()) }
    });
    let default = || SpiderpoolInterface {
        name: ifname.to_owned(),
        position: 0,
        network: requested.default.as_ref().map(NetworkSelection::display_name),
    };
    named.into_iter().find(|interface| interface.name == ifname).unwrap_or_else(default)
}

/// Returns `pod` with its UID filled in. Returns a fault if the runtime's UID differs from that in the API
/// server, unless the pod is static.
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
        format!("the sandbox is for UID {}, but the pod with this name now has UID {}", pod.uid, facts.uid),
        "no action needed: the pod was deleted and recreated, and the kubelet starts the new one",
    ))
}

/// Builds the plan of a pod. Networks take their devices from `devices`, in the order of the attachments.
pub fn build_plan(input: &PlanInput<'_>, devices: &mut PodDevices) -> Result<PlanOutput, Fault> {
    let mut selections = Vec::new();
    let default = match input.default {
        DefaultNetworkChoice::Wrapped(network) => attachment::build_wrapped(input, network)?,
        DefaultNetworkChoice::Resolved(network) => {
            selections.push((0, &network.selection));
            attachment::build_resolved(input, 0, network, devices)?
        }
    };
    let mut attachments = vec![default];
    for (position, network) in input.networks.iter().enumerate() {
        selections.push((position + 1, &network.selection));
        attachments.push(attachment::build_resolved(input, position + 1, network, devices)?);
    }
    check_unique_ifnames(&attachments)?;
    route::set_default_routes(&mut attachments, &selections)?;
    let ip_requests = attachments
        .iter()
        .enumerate()
        .map(|(position, attachment)| AttachmentIpRequests::for_attachment(input, position, attachment));
    let ip_requests = ip_requests.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let partitions = partition_requests(&attachments)?;
    let marks = ib_kubernetes_marks(&attachments, &partitions);
    let (pod, container) = (input.pod.clone(), input.container.to_owned());
    let plan = Plan { pod, container, attachments, membership: false, partitions };
    Ok(PlanOutput { plan, ip_requests, marks })
}

fn check_unique_ifnames(attachments: &[Attachment]) -> Result<(), Fault> {
    let mut names = HashSet::new();
    for attachment in attachments {
        if !names.insert(attachment.ifname.as_str()) {
            return Err(Fault::new(
                FaultCode::NameTaken,
                format!("network {}", attachment.network),
                format!("interface {} is requested twice", attachment.ifname),
                "give each network in the pod's annotation a different interface name",
            ));
        }
    }
    Ok(())
}
