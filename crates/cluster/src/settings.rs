//! Settings of the cluster daemon.

use ferroband_daemon::TenantPolicy;
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
    pub tenants: TenantPolicy,
    /// Maximum number of P_Keys that the pods of a namespace may use together, without those that a Partition object
    /// assigns to the namespace by name. Zero means no limit.
    pub max_pkeys_per_namespace: usize,
    /// Number of addresses per pool up to which assigned addresses are shown in the objects of Whereabouts and
    /// Spiderpool. Above it only their number is shown; with 0 they are never shown.
    pub projection_limit: usize,
}

impl ClusterSettings {
    pub const MAX_PKEYS_PER_NAMESPACE: usize = 32;

    /// The namespaces whose objects apply to the whole cluster.
    pub fn trusted_namespaces(&self) -> Vec<&str> {
        self.tenants.trusted_namespaces.iter().map(String::as_str).collect()
    }
}

impl ClusterSettings {
    /// Settings of unit tests, and of fuzz tests, which are another crate.
    #[doc(hidden)]
    pub fn for_test() -> Self {
        Self {
            identity: "a".into(),
            namespace: "ferroband-system".into(),
            lease_duration: Duration::from_secs(15),
            resource_prefix: "spidernet.io".into(),
            webhook_port: 0,
            tenants: TenantPolicy::default(),
            max_pkeys_per_namespace: Self::MAX_PKEYS_PER_NAMESPACE,
            projection_limit: 1000,
        }
    }
}
