//! Determines which networks a pod gets, from its annotations and the cluster-wide settings.

use super::NetworkAccessPolicy;
use crate::caches::{PodFacts, SpiderpoolInterface};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_model::{Fault, FaultCode, PodRef};

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
    policy.tenants.check_network_count(NETWORKS, networks.len())?;
    for selection in &networks {
        policy.check_allowed(namespace, selection)?;
    }
    let default =
        NetworkSelection::parse_default_network(annotation_value(DEFAULT_NETWORK), &policy.namespace)
            .map_err(|e| e.fault())?;
    if let Some(selection) = &default {
        policy.check_default_network(namespace, selection)?;
    }
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
