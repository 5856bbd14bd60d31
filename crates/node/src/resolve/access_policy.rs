//! Which networks a pod may use, and where networks are looked up.

use super::PluginPolicy;
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_config::{PlainPods, WrapperConfig};
use ferroband_daemon::TenantPolicy;
use ferroband_model::{Fault, FaultCode};

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
    /// Whether the annotation `v1.multus-cni.io/default-network` is rejected.
    pub forbids_default_network: bool,
    /// Which CNI plugins may be executed for networks outside of trusted namespaces.
    pub plugins: PluginPolicy,
    pub tenants: TenantPolicy,
}

impl Default for NetworkAccessPolicy {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            isolation: None,
            default_networks: Vec::new(),
            system_namespaces: vec!["kube-system".to_owned()],
            forbids_default_network: false,
            plugins: PluginPolicy::Any,
            tenants: TenantPolicy::default(),
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
            ..Self::default()
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
        Err(isolation_fault(namespace, selection, NETWORKS, &global.join(", ")))
    }

    /// Returns a fault if a pod in `namespace` may not use the network as its default network: if the administrator
    /// forbids it, or if isolation is enabled and the network is not in the pod's own, a global or a trusted namespace.
    pub fn check_default_network(&self, namespace: &str, selection: &NetworkSelection) -> Result<(), Fault> {
        if self.forbids_default_network {
            return Err(Fault::new(
                FaultCode::InvalidAnnotation,
                format!("annotation {DEFAULT_NETWORK}"),
                "pods may not replace the cluster's default network (forbidDefaultNetwork)",
                "remove the annotation, and recreate the pod",
            ));
        }
        let Some(global) = &self.isolation else { return Ok(()) };
        let of = &selection.namespace;
        // The administrator chose `self.namespace` for default networks.
        let is_allowed =
            of == namespace || *of == self.namespace || global.contains(of) || self.tenants.is_trusted(of);
        if is_allowed {
            return Ok(());
        }
        let mut allowed = global.clone();
        allowed.extend(self.tenants.trusted_namespaces.iter().filter(|one| !global.contains(one)).cloned());
        Err(isolation_fault(namespace, selection, DEFAULT_NETWORK, &allowed.join(", ")))
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

fn isolation_fault(namespace: &str, selection: &NetworkSelection, annotation: &str, allowed: &str) -> Fault {
    Fault::new(
        FaultCode::InvalidAnnotation,
        format!("network {}", selection.display_name()),
        format!(
            "namespace isolation enabled: pods in {namespace} may only use networks in {namespace} and {allowed}"
        ),
        format!("correct the annotation {annotation}, or ask for the network's namespace to be made global"),
    )
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
