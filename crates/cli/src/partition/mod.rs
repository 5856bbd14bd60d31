//! `ferroband partition`.

mod view;

use crate::table::{render, table};
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use ferroband_api::ferroband::{Fabric, NodePartitions, Partition as Rule};
use ferroband_partition::PKeyBase;
use kube::{Api, Client, api::ListParams};
use serde::Serialize;
use std::io::{Write, stdout};
use view::{MemberRow, PartitionView};

/// Show the partitions of the fabric: who shall be in which, and what the subnet manager has
///
/// What is wanted comes from the nodes' objects (NodePartitions), what is there from what the cluster daemon hears from
/// the subnet manager. A member that it does not have yet is shown with the reason.
#[derive(Args, Debug)]
pub struct PartitionCommand {
    #[command(subcommand)]
    action: PartitionAction,

    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = PartitionFormat::Table, global = true)]
    output: PartitionFormat,
}

#[derive(Debug, Subcommand)]
enum PartitionAction {
    /// One line for each partition: its members wanted and there, and who may use it.
    List,
    /// One partition: its members, and who may use it.
    Show {
        /// The P_Key: 0x3e8, or 1000.
        pkey: PKeyBase,
    },
    /// One line for each member of any partition.
    Members {
        /// Only pods of this namespace.
        #[arg(short, long)]
        namespace: Option<String>,
    },
    /// Only what is not as wanted. Exits with 1 if anything is not.
    Diff,
}

/// A form of output.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartitionFormat {
    /// Columns, for people.
    Table,
    /// Everything, for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

impl PartitionCommand {
    /// Look, and print.
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let view = runtime.block_on(read_view())?;
        match self.action {
            PartitionAction::List => {
                let all = view.partitions();
                print(self.output, &all, || {
                    let mut rows = table(["P_KEY", "WANTED", "THERE", "OPEN", "MODE", "NAMESPACES"]);
                    for one in &all {
                        let open = (one.wanted - one.there).to_string();
                        let namespaces =
                            if one.namespaces.is_empty() { "-".to_owned() } else { one.namespaces.join(",") };
                        rows.add_row([
                            one.pkey.clone(),
                            one.wanted.to_string(),
                            one.there.to_string(),
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
                let members =
                    view.members(|row| namespace.as_ref().is_none_or(|wanted| row.namespace == *wanted));
                print(self.output, &members, || render_members(&members))
            }
            PartitionAction::Diff => {
                let open = view.members(|row| row.state != "programmed");
                let orphans = view.orphans();
                print(self.output, &(&open, &orphans), || {
                    let strangers: String = orphans
                        .iter()
                        .map(|orphan| format!("stranger  {orphan}: a GUID of our range, nobody's here\n"))
                        .collect();
                    match open.is_empty() && orphans.is_empty() {
                        true => "everything is as wanted\n".to_owned(),
                        false => format!("{}{strangers}", render_members(&open)),
                    }
                })?;
                anyhow::ensure!(open.is_empty(), "{} members are not as wanted", open.len());
                Ok(())
            }
        }
    }
}

async fn read_view() -> anyhow::Result<PartitionView> {
    let client = Client::try_default().await.context("no way to the API server; is KUBECONFIG set?")?;
    let all = ListParams::default();
    let nodes =
        Api::<NodePartitions>::all(client.clone()).list(&all).await.context("reading NodePartitions")?;
    let rules = Api::<Rule>::all(client.clone()).list(&all).await.context("reading Partitions")?;
    let fabric = Api::<Fabric>::all(client).get_opt("default").await.context("reading Fabric default")?;
    Ok(PartitionView { nodes: nodes.items, rules: rules.items, fabric })
}

fn render_members(members: &[MemberRow]) -> String {
    if members.is_empty() {
        return "no members\n".to_owned();
    }
    let mut rows = table(["P_KEY", "GUID", "KIND", "NODE", "DEVICE", "POD", "INTERFACE", "STATE", "WHY"]);
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
    let shown = match output {
        PartitionFormat::Table => table(),
        PartitionFormat::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        PartitionFormat::Yaml => serde_saphyr::to_string(value)?,
    };
    stdout().write_all(shown.as_bytes())?;
    Ok(())
}
