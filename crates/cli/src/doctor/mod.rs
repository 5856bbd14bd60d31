//! `ferroband doctor`: what is wrong, and what to do about it.
//!
//! ```text
//! API server ──▶ Seen ──▶ cluster, definitions, foreign ──┐
//! this node's files, sockets, hardware ──▶ node ──────────┴──▶ findings ──▶ table, exit status
//! ```

mod cluster;
mod definitions;
mod finding;
mod foreign;
mod node;

use crate::connection::{Connection, block_on};
use crate::output::{Output, print};
use crate::status::{Report, Seen};
use crate::table::{table, text};
use anyhow::bail;
use clap::{Args, ValueEnum};
use ferroband_kernel::Root;
use finding::{Finding, Verdict};
use std::path::PathBuf;

/// Find out what is wrong, and what to do about it
///
/// In the cluster: definitions, daemons and their leader, conditions of nodes, pods that wait, pools that are nearly
/// full, controllers of replaced systems that still run. On a node, as root: its daemon, the CNI configuration, the
/// kubelet's sockets, the adapters, their links and the subnet manager. Each finding comes with a remedy.
///
/// The exit status is 1 if something is wrong; what is merely worth knowing does not count.
#[derive(Args, Debug)]
pub struct Doctor {
    /// What to look at; both unless given, the node only where a kubelet runs.
    #[arg(value_enum)]
    what: Vec<Patient>,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    connection: Connection,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Patient {
    /// The cluster, by way of the API server.
    Cluster,
    /// This node.
    Node,
}

impl Doctor {
    /// Look, print, and fail if something is wrong.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root.clone());
        let named = |patient| self.what.contains(&patient);
        let mut findings = Vec::new();
        if self.what.is_empty() || named(Patient::Cluster) {
            findings.extend(block_on(in_cluster(&self.connection)).unwrap_or_else(|error| {
                vec![Finding::wrong(
                    "API server",
                    ferroband_node::chain(error.as_ref()),
                    "set KUBECONFIG, or say `ferroband doctor node` to look at this node alone",
                )]
            }));
        }
        if named(Patient::Node) || (self.what.is_empty() && root.path("var/lib/kubelet").is_dir()) {
            findings.extend(node::look(&root));
        }
        print(self.output, &findings, || told(&findings))?;
        match findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count() {
            0 => Ok(()),
            1 => bail!("one thing is wrong"),
            count => bail!("{count} things are wrong"),
        }
    }
}

async fn in_cluster(connection: &Connection) -> anyhow::Result<Vec<Finding>> {
    let client = connection.client().await?;
    let seen = Seen::of(&client).await?;
    let mut findings = definitions::look(&client).await?;
    findings.extend(cluster::look(&Report::of(&seen)));
    findings.extend(foreign::look(&seen));
    Ok(findings)
}

fn told(findings: &[Finding]) -> String {
    let mut rows = table(["", "CHECK", "SEEN"]);
    for finding in findings {
        rows.add_row([finding.verdict.word(), finding.check.as_str(), finding.seen.as_str()]);
    }
    let mut shown = text(rows);
    let remedies: Vec<_> =
        findings.iter().filter_map(|f| Some(format!("  {}: {}\n", f.check, f.remedy.as_ref()?))).collect();
    if !remedies.is_empty() {
        shown.push_str("\nWhat to do\n");
        shown.extend(remedies);
    }
    shown
}

#[cfg(test)]
mod tests;
