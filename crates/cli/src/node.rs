//! `ferroband node`.

use crate::{network_flags::NetworkFlags, resource_flags::ResourceFlags};
use clap::{Args, builder::PossibleValuesParser};
use ferroband_kernel::Root;
use ferroband_node::{NodeSettings, SimulationSettings, readiness, run};
use std::{net::SocketAddr, path::PathBuf};

/// Run the node daemon
///
/// It tells the kubelet about the RDMA devices of this node (resource jarvice.com/rdma,
/// and what is configured), decides what interfaces and
/// addresses pods get, and puts ferroband-cni in front of the default network. Pods on the node need it to start, but
/// not to stop: what is deleted while it is away is settled when it is back.
///
/// It needs to be root in the host's network namespace, and the API server (in-cluster, or KUBECONFIG).
#[derive(Args, Debug)]
pub struct NodeCommand {
    /// The name of this node in the API server.
    #[arg(long, env = "NODE_NAME", value_name = "NAME", required_unless_present = "check")]
    node_name: Option<String>,

    /// The namespace that Ferroband is installed in; the node's SriovNetworkNodeState is there.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// The CNI program to install in opt/cni/bin as `ferroband`.
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/ferroband-cni")]
    cni_binary: PathBuf,

    /// Install the CNI program under these names, too. A foreign program of that name is kept as NAME.before-ferroband.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(ALIASES))]
    alias: Vec<String>,

    /// Simulate the InfiniBand hardware of this profile. The node gets the label ferroband.io/simulated=true.
    #[arg(long, value_name = "PROFILE")]
    simulate: Option<String>,

    /// Join the simulated fabrics of the nodes over this interface; without it they end at the node.
    #[arg(long, value_name = "INTERFACE", requires = "simulate")]
    simulate_uplink: Option<String>,

    #[command(flatten)]
    resource_flags: ResourceFlags,

    #[command(flatten)]
    network_flags: NetworkFlags,

    /// The opensm to run if this node has the label ferroband.io/subnet-manager: a file, or a name to look for.
    #[arg(long, env = "FERROBAND_OPENSM", value_name = "PROGRAM", default_value = "opensm")]
    opensm: PathBuf,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics, for example 127.0.0.1:5711. Off unless given.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Do not run; ask the daemon that runs here whether it is ready, and exit with 0 if so.
    #[arg(long)]
    pub check: bool,
}

/// The plugins that `ferroband-cni` can stand in for.
pub const ALIASES: [&str; 8] =
    ["coordinator", "ib-sriov", "ipoib", "multus", "multus-shim", "rdma", "spiderpool", "whereabouts"];

impl NodeCommand {
    /// Run until SIGTERM.
    pub fn run(self) -> anyhow::Result<()> {
        let Self {
            node_name,
            namespace,
            root,
            cni_binary,
            alias,
            simulate,
            simulate_uplink,
            resource_flags: offered,
            network_flags: choices,
            opensm,
            metrics_address,
            check,
        } = self;
        let root = Root::at(root);
        if check {
            return Ok(readiness::check(&root)?);
        }
        let node = node_name.unwrap_or_default();
        let cdi = offered.use_cdi;
        let settings = NodeSettings {
            devices: offered.into_sources(&node)?,
            cdi,
            opensm,
            metrics: metrics_address,
            policy: choices.into_policy(),
            node,
            namespace,
            root,
            cni_program: Some(cni_binary),
            aliases: alias,
            simulation: simulate.map(|profile| SimulationSettings { profile, uplink: simulate_uplink }),
        };
        // Few threads: the daemon mostly waits, and calls that block have threads of their own.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        Ok(runtime.block_on(run(settings))?)
    }
}
