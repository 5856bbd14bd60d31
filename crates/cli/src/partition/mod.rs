//! `ferroband partition`: shows the members of the fabric's partitions.

pub mod view;

use crate::connection::{ClusterConnection, block_on};
use crate::output::{NarrowFormat, print};
use crate::table::{render, table};
use anyhow::Context;
use clap::{Args, Subcommand};
use ferroband_api::ferroband::{Fabric, NodePartitions, Partition as Rule};
use ferroband_partition::RequestedPKey;
use kube::{Api, api::ListParams};
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
    #[arg(short, long, value_enum, default_value_t = NarrowFormat::Table, global = true)]
    output: NarrowFormat,
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

impl PartitionCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let view = block_on(read_view())?;
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
    let client = ClusterConnection::default().client().await?;
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
