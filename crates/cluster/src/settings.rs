//! Settings of the cluster daemon.

use std::{collections::BTreeSet, time::Duration};

/// Command-line settings of the cluster daemon.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Name of the daemon's pod, which is its identity as holder of the lease.
    pub identity: String,
    /// Namespace in which the daemon runs. It contains the lease, the webhook's Secret and the
    /// SriovNetworkNodeStates.
    pub namespace: String,
    /// How long the lease is valid after its last renewal. If the leader dies, the cluster has no leader for about
    /// this time.
    pub lease_duration: Duration,
    /// Prefix for resource names that are written without one, for example `spidernet.io`.
    pub resource_prefix: String,
    pub webhook_port: u16,
}

impl ClusterSettings {
    /// The namespaces whose objects apply to the whole cluster: the daemon's own, and those in the
    /// documentation of Spiderpool and the SR-IOV operator.
    pub fn system_namespaces(&self) -> Vec<&str> {
        let mut all = vec![self.namespace.as_str(), "kube-system", "spiderpool"];
        // The daemon may run in one of the others. The order is kept, because messages show it.
        let mut seen = BTreeSet::new();
        all.retain(|namespace| seen.insert(*namespace));
        all
    }

    /// Whether objects in `namespace` apply to the whole cluster.
    pub fn is_system_namespace(&self, namespace: &str) -> bool {
        self.system_namespaces().contains(&namespace)
    }
}

#[cfg(test)]
impl ClusterSettings {
    pub fn for_test() -> Self {
        Self {
            identity: "a".into(),
            namespace: "ferroband-system".into(),
            lease_duration: Duration::from_secs(15),
            resource_prefix: "spidernet.io".into(),
            webhook_port: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_namespace_is_listed_once() {
        let of =
            |namespace: &str| ClusterSettings { namespace: namespace.into(), ..ClusterSettings::for_test() };
        assert_eq!(of("a").system_namespaces(), ["a", "kube-system", "spiderpool"]);
        assert_eq!(of("kube-system").system_namespaces(), ["kube-system", "spiderpool"]);
        assert_eq!(of("spiderpool").system_namespaces(), ["spiderpool", "kube-system"]);
    }
}
