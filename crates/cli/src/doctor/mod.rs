//! `ferroband doctor`: finds problems and suggests fixes.
//!
//! ```text
//! API server ──▶ CRDs ──▶ crds ────────────────────────────────────────────────────────────────────────────┐
//!            ──▶ admission policy and binding ──▶ node_policy ──────────────────────────────────────────────┤
//!            ──▶ ClusterObjects ──▶ cluster, ports, policies, fabric, partitions, tenants, aliases, … ───────┤
//! this node's files, sockets, hardware ──▶ node ────────────────────────────────────────────────────────────┴──▶ findings
//! ```

mod aliases;
mod cluster;
mod crds;
mod fabric;
mod finding;
mod node;
mod node_policy;
mod partitions;
mod policies;
mod ports;
mod replaced_systems;
mod tenants;

use crate::connection::{ClusterConnection, block_on};
use crate::output::{OutputFormat, print};
use crate::status::{ClusterObjects, StatusReport};
use crate::table::{render, table};
use anyhow::bail;
use clap::{Args, ValueEnum};
use ferroband_kernel::Root;
use finding::{DoctorFinding, DoctorVerdict};
use std::path::PathBuf;

/// Find problems and suggest fixes
///
/// In the cluster, it checks CRDs, the policy that limits node accounts, daemons and their leader, node
/// conditions, devices without a link, pods that wait for a network, pools that are nearly full, policies, the
/// subnet manager, partition members, and components of replaced projects that still run. On a node, as root,
/// it checks the daemon, the CNI configuration, the kubelet's sockets, the adapters, their links and the subnet
/// manager. Each problem comes with a remedy.
///
/// The exit status is 1 if there is a problem; notes do not count.
#[derive(Args, Debug)]
pub struct DoctorCommand {
    /// What to check; by default the cluster, and this node if it has the directory /var/lib/kubelet.
    #[arg(value_enum)]
    what: Vec<DoctorScope>,

    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Output format of the findings.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ClusterConnection,
}

/// Scope of `ferroband doctor`, as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DoctorScope {
    /// The cluster, through the API server.
    Cluster,
    /// This node: its daemon, CNI configuration, kubelet and hardware.
    Node,
}

impl DoctorCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root.clone());
        let named = |patient| self.what.contains(&patient);
        let mut findings = Vec::new();
        if self.what.is_empty() || named(DoctorScope::Cluster) {
            findings.extend(block_on(check_cluster(&self.connection)).unwrap_or_else(|error| {
                vec![DoctorFinding::problem(
                    "API server",
                    ferroband_node::error_chain(error.as_ref()),
                    "set KUBECONFIG, or run `ferroband doctor node` to check only this node",
                )]
            }));
        }
        if named(DoctorScope::Node) || (self.what.is_empty() && root.path("var/lib/kubelet").is_dir()) {
            findings.extend(node::check(&root));
        }
        print(self.output, &findings, || render_table(&findings))?;
        match findings.iter().filter(|finding| finding.verdict == DoctorVerdict::Problem).count() {
            0 => Ok(()),
            1 => bail!("found 1 problem"),
            count => bail!("found {count} problems"),
        }
    }
}

async fn check_cluster(connection: &ClusterConnection) -> anyhow::Result<Vec<DoctorFinding>> {
    let client = connection.client().await?;
    let objects = ClusterObjects::read(&client).await?;
    let mut findings = crds::check(&client).await?;
    findings.extend(node_policy::check(&client).await?);
    findings.extend(check_objects(&objects));
    Ok(findings)
}

fn check_objects(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let report = StatusReport::from_objects(objects);
    let mut findings = cluster::check(&report);
    findings.extend(ports::check(objects, &report));
    findings.extend(policies::check(objects));
    findings.extend(fabric::check(objects));
    findings.extend(partitions::check(objects));
    findings.extend(tenants::check(objects));
    findings.extend(aliases::check(objects));
    findings.extend(replaced_systems::check(objects));
    findings
}

fn render_table(findings: &[DoctorFinding]) -> String {
    let mut rows = table(["", "CHECK", "RESULT"]);
    for finding in findings {
        rows.add_row([finding.verdict.label(), finding.check.as_str(), finding.observed.as_str()]);
    }
    let mut text = render(rows);
    let remedies: Vec<_> =
        findings.iter().filter_map(|f| Some(format!("  {}: {}\n", f.check, f.remedy.as_ref()?))).collect();
    if !remedies.is_empty() {
        text.push_str("\nRemedies\n");
        text.extend(remedies);
    }
    text
}

#[cfg(test)]
mod tests;
