//! `ferroband cluster`.

use anyhow::ensure;
use clap::Args;
use ferroband_cluster::{ClusterSettings, run};
use std::time::Duration;

/// Run the cluster daemon
///
/// It decides what is decided once for all nodes, and meets the node daemons in objects of the API server. Run two: one
/// holds the lease ferroband-cluster and works, the other takes over when it is gone. Pods start and stop without it.
///
/// It needs the API server (in-cluster, or KUBECONFIG) and nothing of the machine it runs on.
#[derive(Args, Debug)]
pub struct ClusterCommand {
    /// Who this replica is; its pod's name.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: String,

    /// The namespace that Ferroband is installed in; the lease is there.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// How many seconds after the leader's last sign of life another replica takes over.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    lease_seconds: u64,

    /// What stands before the resource names of SriovIBNetworks, which are written without prefix.
    #[arg(long, env = "RESOURCE_PREFIX", value_name = "PREFIX", default_value = "spidernet.io")]
    resource_prefix: String,

    /// Where the API server reaches the webhook, by way of the Service ferroband-webhook.
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,
}

impl ClusterCommand {
    /// Run until SIGTERM.
    pub fn run(self) -> anyhow::Result<()> {
        ensure!(self.lease_seconds >= 5, "--lease-seconds {}: at least 5", self.lease_seconds);
        let settings = ClusterSettings {
            identity: self.pod_name,
            namespace: self.namespace,
            lease_duration: Duration::from_secs(self.lease_seconds),
            resource_prefix: self.resource_prefix,
            webhook_port: self.webhook_port,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(runtime.block_on(run(settings))?)
    }
}
