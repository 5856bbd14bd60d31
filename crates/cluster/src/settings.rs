//! Settings of the cluster daemon.

use std::time::Duration;

/// Command-line settings of the cluster daemon.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Lease holder identity: the pod's name.
    pub identity: String,
    /// The daemon's own namespace.
    pub namespace: String,
    /// Validity of the lease after its last renewal: the longest time without a leader after a leader died.
    pub lease_duration: Duration,
    /// Prefix for resource names that have none: `spidernet.io`.
    pub resource_prefix: String,
    pub webhook_port: u16,
}

impl ClusterSettings {
    /// The namespaces whose objects apply to the whole cluster: the daemon's own, and those that the documentation of
    /// the replaced systems uses.
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
