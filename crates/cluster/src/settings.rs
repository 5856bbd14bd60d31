//! Settings of the cluster daemon.

use std::time::Duration;

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
        all.dedup();
        all
    }

    /// Whether objects in `namespace` apply to the whole cluster.
    pub fn is_system_namespace(&self, namespace: &str) -> bool {
        self.system_namespaces().contains(&namespace)
    }
}
