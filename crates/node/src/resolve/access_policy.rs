//! Cluster-wide settings for network selection.

use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_config::{PlainPods, WrapperConfig};
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
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn policy(isolated: bool, global: &[&str], networks: &[&str]) -> NetworkAccessPolicy {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        NetworkAccessPolicy::new(String::new(), isolated, owned(global), owned(networks), Vec::new())
    }

    fn network(text: &str) -> NetworkSelection {
        NetworkSelection::parse_networks(text, "A").unwrap().remove(0)
    }

    // Case: cni 80
    #[test]
    fn isolation_allows_the_pods_own_and_global_namespaces() {
        assert_eq!(policy(false, &["b"], &[]), NetworkAccessPolicy::default());
        assert!(
            NetworkAccessPolicy::default().check_allowed("A", &network("b/x")).is_ok(),
            "disabled by default"
        );
        let on = policy(true, &[], &[]);
        assert!(
            on.check_allowed("A", &network("x")).is_ok()
                && on.check_allowed("A", &network("default/x")).is_ok()
        );
        let fault = on.check_allowed("A", &network("b/x")).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidAnnotation);
        assert!(fault.cause.contains("namespace isolation enabled") && fault.what.contains("b/x"), "{fault}");
        let global = policy(true, &[" b ", "c"], &[]);
        assert!(
            global.check_allowed("A", &network("b/x")).is_ok()
                && global.check_allowed("A", &network("default/x")).is_err()
        );
    }

    // Case: cni 80
    #[test]
    fn multus_configuration_is_applied_and_cannot_disable_isolation() {
        let config = json!({"namespaceIsolation": true, "globalNamespaces": "b, c", "multusNamespace": "m",
            "defaultNetworks": ["d"], "systemNamespaces": ["s"]});
        let read = |config: &Value| WrapperConfig::parse(config).unwrap();
        let policy = NetworkAccessPolicy::default().with_config(&read(&config));
        let expected = NetworkAccessPolicy {
            namespace: "m".into(),
            isolation: Some(vec!["b".into(), "c".into()]),
            default_networks: vec!["d".into()],
            system_namespaces: vec!["s".into()],
        };
        assert_eq!(policy, expected);
        for config in [json!({}), json!({"namespaceIsolation": false, "globalNamespaces": "x"}), Value::Null]
        {
            assert_eq!(policy.with_config(&read(&config)), policy, "{config}");
        }
        let wider = json!({"namespaceIsolation": true, "globalNamespaces": "everything"});
        assert_eq!(policy.with_config(&read(&wider)).isolation, policy.isolation);
        let fault = WrapperConfig::parse(&json!({"namespaceIsolation": 7})).unwrap_err().fault();
        assert_eq!(fault.code, FaultCode::InvalidConfig);
    }

    // Case: cni 85
    #[test]
    fn default_networks_are_not_added_to_system_pods() {
        let policy = policy(false, &[], &["d1", "other/d2"]);
        let names = |namespace: &str| -> Vec<_> {
            policy
                .cluster_wide_networks(namespace)
                .unwrap()
                .iter()
                .map(NetworkSelection::display_name)
                .collect()
        };
        assert_eq!(names("default"), ["kube-system/d1", "other/d2"]);
        assert_eq!(names("kube-system"), [""; 0]);
        assert_eq!(policy.plain_pods().namespaces, ["kube-system"]);
        assert_eq!(NetworkAccessPolicy::default().plain_pods().namespaces, ["*"]);
    }
}
