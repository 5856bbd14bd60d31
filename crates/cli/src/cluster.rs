//! `ferroband cluster`: runs the cluster daemon.

use crate::tenant_flags::TenantFlags;
use anyhow::ensure;
use clap::Args;
use ferroband_cluster::{ClusterSettings, run};
use std::time::Duration;

/// Run the cluster daemon
///
/// The cluster daemon runs the cluster-wide controllers. It communicates with the node daemons only through
/// API objects. Run two replicas: the leader holds the lease ferroband-cluster, the other takes over if the
/// leader fails. Pods can start and stop while it is down.
///
/// It requires access to the API server (in-cluster, or KUBECONFIG). It does not access the host.
#[derive(Args, Debug)]
pub struct ClusterCommand {
    /// Name of this replica's pod, which identifies the replica in the lease.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: String,

    /// Namespace in which Ferroband is installed; the lease is created here.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// Seconds after the leader's last renewal until another replica takes over.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    lease_seconds: u64,

    /// Prefix that is added to the resourceName of every SriovIBNetwork.
    #[arg(long, env = "RESOURCE_PREFIX", value_name = "PREFIX", default_value = "spidernet.io")]
    resource_prefix: String,

    /// Port on which the admission webhook listens; the Service ferroband-webhook forwards to it.
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    #[command(flatten)]
    tenant_flags: TenantFlags,

    /// Maximum number of P_Keys that the pods of one namespace may use together. P_Keys that a Partition object assigns
    /// to the namespace by name do not count. 0 means no limit.
    #[arg(
        long,
        env = "FERROBAND_MAX_PKEYS_PER_NAMESPACE",
        value_name = "NUMBER",
        help_heading = "Tenants",
        default_value_t = ClusterSettings::MAX_PKEYS_PER_NAMESPACE
    )]
    max_pkeys_per_namespace: usize,
    /// Show assigned addresses in the objects of Whereabouts and Spiderpool, up to this number per pool. Pools with more
    /// addresses show only their number; 0 shows none.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    projection_limit: usize,
}

impl ClusterCommand {
    /// Runs the daemon until SIGTERM.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.lease_seconds >= 5, "--lease-seconds {}: must be at least 5", self.lease_seconds);
        let settings = ClusterSettings {
            identity: self.pod_name,
            tenants: self.tenant_flags.into_policy(&self.namespace),
            max_pkeys_per_namespace: self.max_pkeys_per_namespace,
            namespace: self.namespace,
            lease_duration: Duration::from_secs(self.lease_seconds),
            resource_prefix: self.resource_prefix,
            webhook_port: self.webhook_port,
            projection_limit: self.projection_limit,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(runtime.block_on(run(settings))?)
    }
}
