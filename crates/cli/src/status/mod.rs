//! `ferroband status`: the whole cluster on one screen.
//!
//! ```text
//! API server ──gather──▶ Seen (objects as they are) ──▶ Report (daemons, nodes, pods, addresses) ──▶ tables | JSON | YAML
//! ```

mod addresses;
mod daemons;
mod gather;
mod nodes;
mod pods;
mod report;
mod show;

pub use gather::Seen;
pub use report::Report;

use crate::connection::{Connection, block_on};
use crate::output::{Output, print};
use clap::{Args, ValueEnum};

/// Show what Ferroband does in the cluster
///
/// The daemons, the nodes with the resources they offer, and every interface that a pod got: its network, device,
/// addresses, GUID, P_Key and state. A pod that asked for a network and does not have it yet is shown with the code of
/// what is wrong; `ferroband explain CODE` tells more.
#[derive(Args, Debug)]
pub struct Status {
    /// Show only these parts.
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// Only pods of this namespace.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Only this node and its pods.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    connection: Connection,
}

/// A part of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The daemons, and who leads.
    Daemons,
    /// The nodes and what they offer.
    Nodes,
    /// The interfaces of pods.
    Pods,
    /// How many addresses are given out.
    Addresses,
}

impl Status {
    /// Ask, and print.
    pub fn run(self) -> anyhow::Result<()> {
        let seen = block_on(async { Ok(Seen::of(&self.connection.client().await?).await?) })?;
        let mut report = Report::of(&seen);
        report.pods.retain(|row| self.namespace.as_ref().is_none_or(|namespace| row.namespace == *namespace));
        if let Some(node) = &self.node {
            report.pods.retain(|row| row.node.as_ref() == Some(node));
            report.nodes.retain(|row| row.name == *node);
            report.daemons.retain(|row| row.node.as_ref() == Some(node));
        }
        print(self.output, &report, || show::text(&report, &self.parts, self.output == Output::Wide))
    }
}

#[cfg(test)]
mod tests;
