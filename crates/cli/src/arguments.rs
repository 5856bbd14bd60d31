//! What can be said on the command line.

use crate::{
    cluster, completions, crds, device_plugin, doctor, explain, inspect, man, manifests, node, partition,
    reference, sim, status, uninstall, verify,
};
use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
To install:
  ferroband crds apply
  ferroband manifests | kubectl apply -f -

To see what is going on:
  ferroband status               the cluster: daemons, nodes, pods and their interfaces
  ferroband inspect              this node's hardware
  ferroband doctor               what is wrong, and what to do about it
  ferroband verify NETWORK       a ping between two nodes over a network
  ferroband explain NoParent     what an error's code means

As `kubectl ferroband`: link this program as kubectl-ferroband into a folder of your PATH.

Exit status: 0 done, 1 it failed and the last line says why, 2 wrong usage.";

/// InfiniBand for Kubernetes pods.
///
/// Ferroband gives pods IPoIB interfaces, RDMA devices and addresses. It runs as a daemon on each node and wraps the
/// cluster's default network; pods ask for more in the annotation k8s.v1.cni.cncf.io/networks.
#[derive(Debug, Parser)]
#[command(name = "ferroband", version, propagate_version = true, after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to log, in the syntax of tracing-subscriber's EnvFilter; the daemons say `info`, the tools `warn`.
    #[arg(long, env = "FERROBAND_LOG", global = true, value_name = "FILTER")]
    pub log: Option<String>,

    /// What to do.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The subcommands.
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
    /// Whether it runs for long, so that its log is what people see of it.
    pub fn is_daemon(&self) -> bool {
        match self {
            Self::Node(node) => !node.check,
            Self::Cluster(_) | Self::DevicePlugin(_) => true,
            _ => false,
        }
    }
}
