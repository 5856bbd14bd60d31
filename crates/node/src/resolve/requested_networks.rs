//! Determines which networks a pod gets, from its annotations and the cluster-wide settings.

use crate::caches::{PodFacts, SpiderpoolInterface};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_config::{PlainPods, WrapperConfig};
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

/// Where networks are looked up, and which pods may use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAccessPolicy {
    /// Namespace of networks that `v1.multus-cni.io/default-network` and `default_networks` name without a
    /// namespace.
    pub namespace: String,
    /// Namespaces whose networks every pod may use. All other networks are restricted to pods of their own
    /// namespace. `None` disables isolation.
    pub isolation: Option<Vec<String>>,
    /// Networks that every pod gets, in addition to and before the networks that it requests.
    pub default_networks: Vec<String>,
    /// Namespaces whose pods do not get `default_networks`.
    pub system_namespaces: Vec<String>,
}

impl Default for NetworkAccessPolicy {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            isolation: None,
            default_networks: Vec::new(),
            system_namespaces: vec!["kube-system".to_owned()],
        }
    }
}

impl NetworkAccessPolicy {
    /// Creates the settings from command-line values. An empty list counts as unset.
    pub fn new(
        namespace: String,
        isolated: bool,
        global: Vec<String>,
        default_networks: Vec<String>,
        system: Vec<String>,
    ) -> Self {
        let default = Self::default();
        let trimmed = |list: Vec<String>| split_list(&list.join(","));
        Self {
            namespace: Some(namespace).filter(|name| !name.is_empty()).unwrap_or(default.namespace),
            isolation: isolated.then(|| trimmed(global).unwrap_or_else(default_global_namespaces)),
            default_networks: trimmed(default_networks).unwrap_or_default(),
            system_namespaces: trimmed(system).unwrap_or(default.system_namespaces),
        }
    }

    /// Returns the policy with the Multus settings of a call's CNI configuration applied, so that a node that
    /// was migrated from Multus keeps its isolation. The configuration can enable isolation but not disable
    /// it.
    pub fn with_config(&self, config: &WrapperConfig) -> Self {
        let mut policy = self.clone();
        policy.namespace = config.multus_namespace.clone().unwrap_or(policy.namespace);
        if config.namespace_isolation && policy.isolation.is_none() {
            let global = split_list(&config.global_namespaces);
            policy.isolation = Some(global.unwrap_or_else(default_global_namespaces));
        }
        policy.default_networks = config.default_networks.clone().unwrap_or(policy.default_networks);
        policy.system_namespaces = config.system_namespaces.clone().unwrap_or(policy.system_namespaces);
        policy
    }

    /// Returns which pods get the cluster's default network only. The CNI plugin attaches them without the daemon.
    pub fn plain_pods(&self) -> PlainPods {
        let namespaces = match self.default_networks.is_empty() {
            true => vec![PlainPods::ALL_NAMESPACES.to_owned()],
            false => self.system_namespaces.clone(),
        };
        PlainPods { namespaces, unless_annotated: [NETWORKS, DEFAULT_NETWORK].map(str::to_owned).into() }
    }

    /// Returns a fault if isolation forbids a pod in `namespace` to use the network.
    pub fn check_allowed(&self, namespace: &str, selection: &NetworkSelection) -> Result<(), Fault> {
        let Some(global) = &self.isolation else { return Ok(()) };
        if selection.namespace == namespace || global.contains(&selection.namespace) {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::InvalidAnnotation,
            format!("network {}", selection.display_name()),
            format!(
                "namespace isolation enabled: pods in {namespace} may only use networks in {namespace} and {}",
                global.join(", ")
            ),
            format!(
                "correct the annotation {NETWORKS}, or ask for the network's namespace to be made global"
            ),
        ))
    }

    /// Returns the default networks of pods in `namespace`; empty for a system namespace.
    pub fn cluster_wide_networks(&self, namespace: &str) -> Result<Vec<NetworkSelection>, Fault> {
        if self.system_namespaces.iter().any(|system| system == namespace) {
            return Ok(Vec::new());
        }
        let networks = self.default_networks.iter();
        let read = networks
            .map(|network| NetworkSelection::parse_networks(network, &self.namespace).map_err(|e| e.fault()));
        Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Splits a comma-separated list; `None` if it is empty.
fn split_list(text: &str) -> Option<Vec<String>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned);
    Some(items.collect::<Vec<_>>()).filter(|items| !items.is_empty())
}

/// Namespaces whose networks every pod may use by default. As with Multus, a configured list replaces this
/// one.
fn default_global_namespaces() -> Vec<String> {
    vec!["default".to_owned()]
}

#[cfg(test)]
mod tests;
