//! Global flags and the list of subcommands.

use crate::{
    cluster, completions, crds, device_plugin, doctor, explain, inspect, man, manifests, node, partition,
    reference, sim, status, uninstall, verify,
};
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
To install:
  ferroband crds apply
  ferroband manifests | kubectl apply -f -

To inspect and debug:
  ferroband status               the cluster: daemons, nodes, pods and their interfaces
  ferroband inspect              this node's hardware
  ferroband doctor               problems and how to fix them
  ferroband verify NETWORK       ping between two nodes over a network
  ferroband explain NoParent     what an error code means

To run as `kubectl ferroband`: link this program as kubectl-ferroband into a directory of your PATH.

Exit status: 0 success, 1 failure (the last line names the reason), 2 invalid usage.";

/// InfiniBand for Kubernetes pods.
///
/// Ferroband attaches pods to InfiniBand: IPoIB interfaces, RDMA devices and addresses. A daemon on each node wraps the
/// cluster's default network; pods request further networks in the annotation k8s.v1.cni.cncf.io/networks.
#[derive(Debug, Parser)]
#[command(name = "ferroband", version, propagate_version = true, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Log filter in the syntax of tracing-subscriber's EnvFilter; daemons default to `info`, tools to `warn`.
    #[arg(long, env = "FERROBAND_LOG", global = true, value_name = "FILTER")]
    pub log: Option<String>,

    /// Daemon or tool to run.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// All subcommands. The type of each variant holds its flags.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Node(Box<node::NodeCommand>),
    Cluster(cluster::ClusterCommand),
    DevicePlugin(device_plugin::DevicePluginCommand),
    Crds(crds::CrdsCommand),
    Manifests(manifests::ManifestsCommand),
    Uninstall(uninstall::UninstallCommand),
    Status(status::StatusCommand),
    Inspect(inspect::InspectCommand),
    Doctor(doctor::DoctorCommand),
    Verify(verify::VerifyCommand),
    Explain(explain::ExplainCommand),
    Partition(partition::PartitionCommand),
    Sim(sim::SimCommand),
    Completions(completions::CompletionsCommand),
    Man(man::ManCommand),
    Reference(reference::ReferenceCommand),
}

impl CliCommand {
    /// Whether the command runs until SIGTERM. Daemons log more by default than tools.
    pub fn is_daemon(&self) -> bool {
        match self {
            Self::Node(node) => !node.check,
            Self::Cluster(_) | Self::DevicePlugin(_) => true,
            _ => false,
        }
    }
}
