//! `ferroband status`: an overview of the cluster.
//!
//! ```text
//! API server ──▶ ClusterObjects ──▶ StatusReport (daemons, nodes, pods, addresses) ──▶ tables | JSON | YAML
//! ```

mod addresses;
mod cluster_objects;
mod daemons;
mod nodes;
mod pods;
mod render;
mod report;
mod waiting;

pub use cluster_objects::ClusterObjects;
pub use report::StatusReport;

use crate::connection::{ClusterConnection, block_on};
use crate::output::{OutputFormat, print};
use clap::{Args, ValueEnum};

/// Show the state of Ferroband in the cluster
///
/// Shows the daemons, the nodes with their resources, and every pod interface with its network, device, addresses,
/// GUID, P_Key and state. A pod that waits for a network is shown with the error code; `ferroband explain CODE`
/// describes it.
#[derive(Args, Debug)]
pub struct StatusCommand {
    /// Parts of the report to show; all by default.
    #[arg(value_enum)]
    parts: Vec<StatusPart>,

    /// Show only pods of this namespace.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Show only the node of this name and its pods.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Output format of the report.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ClusterConnection,
}

/// A part of the status report that can be selected on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusPart {
    /// Ferroband's daemons, and which replica is the leader.
    Daemons,
    /// Nodes with their extended resources.
    Nodes,
    /// Interfaces of pods in additional networks.
    Pods,
    /// Addresses in use, by IP space and pool.
    Addresses,
}

impl StatusCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let objects = block_on(async { Ok(ClusterObjects::read(&self.connection.client().await?).await?) })?;
        let mut report = StatusReport::from_objects(&objects);
        report.pods.retain(|row| self.namespace.as_ref().is_none_or(|namespace| row.namespace == *namespace));
        if let Some(node) = &self.node {
            report.pods.retain(|row| row.node.as_ref() == Some(node));
            report.nodes.retain(|row| row.name == *node);
            report.daemons.retain(|row| row.node.as_ref() == Some(node));
        }
        print(self.output, &report, || {
            render::render(&report, &self.parts, self.output == OutputFormat::Wide)
        })
    }
}

#[cfg(test)]
mod tests;
