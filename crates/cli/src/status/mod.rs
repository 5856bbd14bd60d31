//! `ferroband status`: the whole cluster on one screen.
//!
//! ```text
//! API server ──gather──▶ Seen (objects as they are) ──▶ Report (daemons, nodes, pods, addresses) ──▶ tables | JSON | YAML
//! ```

mod addresses;
mod cluster_objects;
mod daemons;
mod nodes;
mod pods;
mod render;
mod report;

pub use cluster_objects::ClusterObjects;
pub use report::StatusReport;

use crate::connection::{ClusterConnection, block_on};
use crate::output::{OutputFormat, print};
use clap::{Args, ValueEnum};

/// Show what Ferroband does in the cluster
///
/// The daemons, the nodes with the resources they offer, and every interface that a pod got: its network, device,
/// addresses, GUID, P_Key and state. A pod that asked for a network and does not have it yet is shown with the code of
/// what is wrong; `ferroband explain CODE` tells more.
#[derive(Args, Debug)]
pub struct StatusCommand {
    /// Show only these parts.
    #[arg(value_enum)]
    parts: Vec<StatusPart>,

    /// Only pods of this namespace.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Only this node and its pods.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ClusterConnection,
}

/// A part of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusPart {
    /// The daemons, and who leads.
    Daemons,
    /// The nodes and what they offer.
    Nodes,
    /// The interfaces of pods.
    Pods,
    /// How many addresses are given out.
    Addresses,
}

impl StatusCommand {
    /// Ask, and print.
    pub fn run(self) -> anyhow::Result<()> {
        let seen = block_on(async { Ok(ClusterObjects::read(&self.connection.client().await?).await?) })?;
        let mut report = StatusReport::from_objects(&seen);
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
