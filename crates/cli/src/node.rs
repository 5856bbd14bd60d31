//! `ferroband node`: runs the node daemon, checks whether it is ready, or shows what it would change.

mod dry_run;

use crate::{
    network_flags::NetworkFlags, output::OutputFormat, resource_flags::ResourceFlags,
    tenant_flags::TenantFlags,
};
use clap::{Args, builder::PossibleValuesParser};
use ferroband_kernel::Root;
use ferroband_node::{NodeSettings, SimulationSettings, readiness, run};
use std::{net::SocketAddr, path::PathBuf};

/// Run the node daemon
///
/// The node daemon advertises the RDMA devices of this node to the kubelet (as jarvice.com/rdma and as the
/// resources of --device-config), plans the interfaces and addresses of pods, and installs ferroband-cni in
/// front of the default network. Pods need it to start, but not to stop: addresses of pods deleted while it
/// is down are released when it is back.
///
/// It must run as root in the host's network namespace, and requires the API server (in-cluster, or KUBECONFIG).
#[derive(Args, Debug)]
pub struct NodeCommand {
    /// Name of this node's Node object.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", required_unless_present_any = ["check", "file"])]
    node_name: Option<String>,

    /// Namespace in which Ferroband is installed; it contains the node's SriovNetworkNodeState.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// CNI plugin binary to install in opt/cni/bin as `ferroband`.
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/ferroband-cni")]
    cni_binary: PathBuf,

    /// Also install the CNI plugin under these names. An existing file of that name is kept as NAME.before-ferroband.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ALIASES))]
    alias: Vec<String>,

    /// Simulate the InfiniBand hardware of this profile. The node gets the label ferroband.io/simulated=true.
    #[arg(long, value_name = "PROFILE")]
    simulate: Option<String>,

    /// Interface that connects the simulated fabrics of the nodes; without it each node has its own fabric.
    #[arg(long, value_name = "INTERFACE", requires = "simulate")]
    simulate_uplink: Option<String>,

    #[command(flatten)]
    resource_flags: ResourceFlags,

    #[command(flatten)]
    network_flags: NetworkFlags,

    #[command(flatten)]
    tenant_flags: TenantFlags,

    /// opensm binary, as a path or a name in PATH, to run if this node has the label
    /// node-restriction.kubernetes.io/ferroband-subnet-manager.
    #[arg(long, env = "FERROBAND_OPENSM", value_name = "PROGRAM", default_value = "opensm")]
    opensm: PathBuf,

    /// Serve Prometheus metrics at http://ADDRESS/metrics, for example 127.0.0.1:5711. Disabled by default.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Do not run a daemon; exit with 0 if the daemon that runs on this node is ready, otherwise with 1.
    #[arg(long)]
    pub check: bool,

    /// Do not run a daemon; show the changes to the adapters that the daemon would make, and change nothing.
    #[arg(long, conflicts_with_all = ["check", "simulate"])]
    pub dry_run: bool,

    /// With --dry-run, read the SriovNetworkNodeState from this YAML or JSON file and do not use the API server.
    /// Virtual functions then keep their GUIDs.
    #[arg(short, long, value_name = "FILE", requires = "dry_run")]
    file: Option<PathBuf>,

    /// Output format of --dry-run.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table, requires = "dry_run")]
    output: OutputFormat,
}

/// CNI plugins whose names `ferroband-cni` accepts as argv[0] and whose configuration it understands.
pub const ALIASES: [&str; 8] =
    ["coordinator", "ib-sriov", "ipoib", "multus", "multus-shim", "rdma", "spiderpool", "whereabouts"];

impl NodeCommand {
    /// Runs the daemon until SIGTERM. With --check, only checks whether a daemon is ready. With --dry-run, only shows
    /// what the daemon would change.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root);
        if self.check {
            return Ok(readiness::check(&root)?);
        }
        let node = self.node_name.unwrap_or_default();
        let (cdi, uplink) = (self.resource_flags.use_cdi, self.simulate_uplink);
        let settings = NodeSettings {
            devices: self.resource_flags.into_sources(&node)?,
            cdi,
            opensm: self.opensm,
            metrics: self.metrics_address,
            policy: self.network_flags.into_policy(self.tenant_flags.into_policy(&self.namespace)),
            node,
            namespace: self.namespace,
            root,
            cni_program: Some(self.cni_binary),
            aliases: self.alias,
            simulation: self.simulate.map(|profile| SimulationSettings { profile, uplink }),
        };
        if self.dry_run {
            return dry_run::show(settings, self.file.as_deref(), self.output);
        }
        // Two threads are enough: the daemon mostly waits, and blocking calls use their own threads.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(runtime.block_on(run(settings))?)
    }
}
