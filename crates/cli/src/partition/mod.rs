//! `ferroband partition`: shows the members of the fabric's partitions.

pub mod view;

use crate::table::{render, table};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use ferroband_api::ferroband::{Fabric, NodePartitions, Partition as Rule};
use ferroband_partition::RequestedPKey;
use kube::{Api, Client, api::ListParams};
use serde::Serialize;
use std::io::{Write, stdout};
use view::{MemberRow, PartitionView};

/// Show the desired and actual members of the fabric's partitions
///
/// The NodePartitions objects contain the desired members. Their status, which the cluster daemon writes,
/// contains the members that the subnet manager does not have yet, each with the reason.
#[derive(Args, Debug)]
pub struct PartitionCommand {
    #[command(subcommand)]
    action: PartitionAction,

    /// Output format of the members or partitions.
    #[arg(short, long, value_enum, default_value_t = PartitionFormat::Table, global = true)]
    output: PartitionFormat,
}

#[derive(Debug, Subcommand)]
enum PartitionAction {
    /// List the partitions with their desired and programmed members and their access rules.
    List,
    /// Show the members and access rules of one partition.
    Show {
        /// P_Key of the partition, for example 0x3e8 or 1000.
        pkey: RequestedPKey,
    },
    /// List the members of all partitions.
    Members {
        /// List only members whose pod is in this namespace.
        #[arg(short, long)]
        namespace: Option<String>,
    },
    /// List the members that are not programmed as desired. Exits with 1 if there are any.
    Diff,
}

/// Output formats of `ferroband partition`. There is no wide table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartitionFormat {
    /// Table for reading in a terminal.
    Table,
    /// All fields, as JSON.
    Json,
    /// All fields, as YAML.
    Yaml,
}

impl PartitionCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let view = runtime.block_on(read_view())?;
        match self.action {
            PartitionAction::List => {
                let all = view.partitions();
                print(self.output, &all, || {
                    let mut rows = table(["P_KEY", "DESIRED", "PROGRAMMED", "PENDING", "MODE", "NAMESPACES"]);
                    for one in &all {
                        let open = (one.desired - one.programmed).to_string();
                        let namespaces =
                            if one.namespaces.is_empty() { "-".to_owned() } else { one.namespaces.join(",") };
                        rows.add_row([
                            one.pkey.clone(),
                            one.desired.to_string(),
                            one.programmed.to_string(),
                            open,
                            one.mode.clone(),
                            namespaces,
                        ]);
                    }
                    format!("{}{}", view.heading(), render(rows))
                })
            }
            PartitionAction::Show { pkey } => {
                let members = view.members(|row| row.pkey == pkey.to_string());
                print(self.output, &members, || {
                    format!("{}{}", view.describe_partition(pkey), render_members(&members))
                })
            }
            PartitionAction::Members { namespace } => {
                let members = view
                    .members(|row| namespace.as_ref().is_none_or(|namespace| row.namespace == *namespace));
                print(self.output, &members, || render_members(&members))
            }
            PartitionAction::Diff => {
                let open = view.members(|row| row.state != "programmed");
                let orphans = view.orphans();
                print(self.output, &(&open, &orphans), || {
                    let orphan_lines: String = orphans
                        .iter()
                        .map(|orphan| {
                            format!(
                                "orphan  {orphan}: GUID is in this cluster's range but assigned to no node\n"
                            )
                        })
                        .collect();
                    match open.is_empty() && orphans.is_empty() {
                        true => "all members are programmed as desired\n".to_owned(),
                        false => format!("{}{orphan_lines}", render_members(&open)),
                    }
                })?;
                anyhow::ensure!(open.is_empty(), "{} members are not programmed as desired", open.len());
                Ok(())
            }
        }
    }
}

async fn read_view() -> anyhow::Result<PartitionView> {
    let client =
        Client::try_default().await.context("cannot connect to the API server; is KUBECONFIG set?")?;
    let all = ListParams::default();
    let nodes =
        Api::<NodePartitions>::all(client.clone()).list(&all).await.context("cannot read NodePartitions")?;
    let rules = Api::<Rule>::all(client.clone()).list(&all).await.context("cannot read Partitions")?;
    let fabric = Api::<Fabric>::all(client).get_opt("default").await.context("cannot read Fabric default")?;
    Ok(PartitionView { nodes: nodes.items, rules: rules.items, fabric })
}

fn render_members(members: &[MemberRow]) -> String {
    if members.is_empty() {
        return "no members\n".to_owned();
    }
    let mut rows =
        table(["P_KEY", "GUID", "MEMBERSHIP", "NODE", "DEVICE", "POD", "INTERFACE", "STATE", "REASON"]);
    for row in members {
        rows.add_row([
            row.pkey.as_str(),
            &row.guid,
            &row.membership,
            &row.node,
            &row.device,
            &format!("{}/{}", row.namespace, row.pod),
            &row.interface,
            &row.state,
            if row.why.is_empty() { "-" } else { &row.why },
        ]);
    }
    render(rows)
}

fn print(
    output: PartitionFormat,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let text = match output {
        PartitionFormat::Table => table(),
        PartitionFormat::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        PartitionFormat::Yaml => serde_saphyr::to_string(value)?,
    };
    stdout().write_all(text.as_bytes())?;
    Ok(())
}
