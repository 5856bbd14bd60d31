//! `ferroband doctor`: what is wrong, and what to do about it.
//!
//! ```text
//! API server ──▶ Seen ──▶ cluster, definitions, foreign ──┐
//! this node's files, sockets, hardware ──▶ node ──────────┴──▶ findings ──▶ table, exit status
//! ```

mod cluster;
mod crds;
mod finding;
mod node;
mod replaced_systems;

use crate::connection::{ClusterConnection, block_on};
use crate::output::{OutputFormat, print};
use crate::status::{ClusterObjects, StatusReport};
use crate::table::{render, table};
use anyhow::bail;
use clap::{Args, ValueEnum};
use ferroband_kernel::Root;
use finding::{DoctorFinding, DoctorVerdict};
use std::path::PathBuf;

/// Find out what is wrong, and what to do about it
///
/// In the cluster: definitions, daemons and their leader, conditions of nodes, pods that wait, pools that are nearly
/// full, controllers of replaced systems that still run. On a node, as root: its daemon, the CNI configuration, the
/// kubelet's sockets, the adapters, their links and the subnet manager. Each finding comes with a remedy.
///
/// The exit status is 1 if something is wrong; what is merely worth knowing does not count.
#[derive(Args, Debug)]
pub struct DoctorCommand {
    /// What to look at; both unless given, the node only where a kubelet runs.
    #[arg(value_enum)]
    what: Vec<DoctorScope>,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ClusterConnection,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DoctorScope {
    /// The cluster, by way of the API server.
    Cluster,
    /// This node.
    Node,
}

impl DoctorCommand {
    /// Look, print, and fail if something is wrong.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root.clone());
        let named = |patient| self.what.contains(&patient);
        let mut findings = Vec::new();
        if self.what.is_empty() || named(DoctorScope::Cluster) {
            findings.extend(block_on(check_cluster(&self.connection)).unwrap_or_else(|error| {
                vec![DoctorFinding::problem(
                    "API server",
                    ferroband_node::error_chain(error.as_ref()),
                    "set KUBECONFIG, or say `ferroband doctor node` to look at this node alone",
                )]
            }));
        }
        if named(DoctorScope::Node) || (self.what.is_empty() && root.path("var/lib/kubelet").is_dir()) {
            findings.extend(node::check(&root));
        }
        print(self.output, &findings, || render_table(&findings))?;
        match findings.iter().filter(|finding| finding.verdict == DoctorVerdict::Wrong).count() {
            0 => Ok(()),
            1 => bail!("one thing is wrong"),
            count => bail!("{count} things are wrong"),
        }
    }
}

async fn check_cluster(connection: &ClusterConnection) -> anyhow::Result<Vec<DoctorFinding>> {
    let client = connection.client().await?;
    let seen = ClusterObjects::read(&client).await?;
    let mut findings = crds::check(&client).await?;
    findings.extend(cluster::check(&StatusReport::from_objects(&seen)));
    findings.extend(replaced_systems::check(&seen));
    Ok(findings)
}

fn render_table(findings: &[DoctorFinding]) -> String {
    let mut rows = table(["", "CHECK", "SEEN"]);
    for finding in findings {
        rows.add_row([finding.verdict.label(), finding.check.as_str(), finding.seen.as_str()]);
    }
    let mut shown = render(rows);
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
