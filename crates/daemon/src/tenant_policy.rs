//! Settings about tenants that both daemons apply: the cluster daemon as early as possible, the node daemon where it
//! cannot be bypassed.

use ferroband_model::{Fault, FaultCode};

/// What a pod may request, and whose networks are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPolicy {
    /// Namespaces in which only administrators create objects. Their networks may be used by all pods where others may
    /// not, and their objects apply to the whole cluster.
    pub trusted_namespaces: Vec<String>,
    /// Maximum number of networks that a pod may request.
    pub max_networks_per_pod: usize,
    pub unlisted_partitions: UnlistedPartitions,
}

ferroband_model::named_enum! {
    /// What happens to a pod that uses a P_Key that no Partition object lists.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum UnlistedPartitions {
        /// The pod is admitted. If Partition objects exist, it gets a warning event.
        #[default]
        Warn = "warn",
        /// The pod is rejected, unless its network is in a trusted namespace.
        Refuse = "refuse",
    }
}

impl TenantPolicy {
    /// Trusted namespaces besides the one that Ferroband runs in: those in the documentation of Spiderpool and the
    /// SR-IOV operator.
    pub const TRUSTED_NAMESPACES: [&str; 2] = ["kube-system", "spiderpool"];
    pub const MAX_NETWORKS_PER_POD: usize = 64;

    /// Creates the default policy of a daemon that runs in the namespace `own`, with these trusted namespaces.
    pub fn new<N: AsRef<str>>(own: &str, trusted: impl IntoIterator<Item = N>) -> Self {
        let mut trusted_namespaces = vec![own.to_owned()];
        // The order is kept, because messages show it.
        for namespace in trusted {
            let namespace = namespace.as_ref().trim();
            if !namespace.is_empty() && !trusted_namespaces.iter().any(|known| known == namespace) {
                trusted_namespaces.push(namespace.to_owned());
            }
        }
        Self {
            trusted_namespaces,
            max_networks_per_pod: Self::MAX_NETWORKS_PER_POD,
            unlisted_partitions: UnlistedPartitions::default(),
        }
    }

    pub fn is_trusted(&self, namespace: &str) -> bool {
        self.trusted_namespaces.iter().any(|trusted| trusted == namespace)
    }

    /// Whether `network` (`namespace/name`) is in a trusted namespace.
    pub fn is_trusted_network(&self, network: &str) -> bool {
        network.split_once('/').is_some_and(|(namespace, _)| self.is_trusted(namespace))
    }

    /// Returns a fault if a pod requests more networks than allowed.
    pub fn check_network_count(&self, annotation: &str, count: usize) -> Result<(), Fault> {
        let max = self.max_networks_per_pod;
        if count <= max {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::InvalidAnnotation,
            format!("annotation {annotation}"),
            format!("it requests {count} networks, but a pod may have at most {max} (maxNetworksPerPod)"),
            "request fewer networks, or ask the administrator to raise maxNetworksPerPod",
        ))
    }
}

impl Default for TenantPolicy {
    fn default() -> Self {
        Self::new("ferroband-system", Self::TRUSTED_NAMESPACES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trusted_namespace_is_listed_once_and_the_own_one_is_always_trusted() {
        let of = |own: &str| TenantPolicy::new(own, TenantPolicy::TRUSTED_NAMESPACES).trusted_namespaces;
        assert_eq!(of("a"), ["a", "kube-system", "spiderpool"]);
        assert_eq!(of("kube-system"), ["kube-system", "spiderpool"]);
        assert_eq!(of("spiderpool"), ["spiderpool", "kube-system"]);
        assert_eq!(TenantPolicy::new("a", ["", " b "]).trusted_namespaces, ["a", "b"]);
        assert_eq!(TenantPolicy::new("a", [""; 0]).trusted_namespaces, ["a"]);
    }

    #[test]
    fn a_network_is_trusted_by_its_whole_namespace() {
        let policy = TenantPolicy::default();
        assert!(policy.is_trusted_network("kube-system/ib"));
        for other in ["kube-system", "kube-system2/ib", "evil/kube-system/ib", "", "/kube-system"] {
            assert!(!policy.is_trusted_network(other), "{other}");
        }
    }

    #[test]
    fn the_number_of_networks_is_limited() {
        let policy = TenantPolicy::default();
        assert!(policy.check_network_count("a/networks", 64).is_ok());
        let fault = policy.check_network_count("a/networks", 65).unwrap_err().to_string();
        assert!(fault.contains("a/networks") && fault.contains("maxNetworksPerPod"), "{fault}");
    }
}
