//! What the daemon is told when it starts.

use std::time::Duration;

/// How a cluster daemon is to run.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Who it is: the name of its pod.
    pub identity: String,
    /// The namespace it lives in.
    pub namespace: String,
    /// How long a lease counts after it was last renewed: the longest time nobody leads after a leader died.
    pub lease_duration: Duration,
    /// What stands before a resource name that has no prefix of its own: `spidernet.io`.
    pub resource_prefix: String,
    /// Where the webhook is served.
    pub webhook_port: u16,
}

impl ClusterSettings {
    /// The namespaces whose objects count for the whole cluster: ours, and those where the documents of the systems
    /// replaced put them.
    pub fn system_namespaces(&self) -> Vec<&str> {
        let mut all = vec![self.namespace.as_str(), "kube-system", "spiderpool"];
        all.dedup();
        all
    }

    /// Whether objects in `namespace` count for the whole cluster.
    pub fn is_system_namespace(&self, namespace: &str) -> bool {
        self.system_namespaces().contains(&namespace)
    }
}
