//! `ferroband uninstall`.

mod all_nodes;

use clap::Args;
use ferroband_kernel::Root;
use ferroband_node::install;
use std::{path::PathBuf, time::Duration};

/// Take Ferroband off this node
///
/// Pods go on. If none of them has an attachment of Ferroband's, the node is at once as it was before; else new pods get
/// the cluster's default network alone, and the deletion of the last such pod removes the rest: the CNI configuration
/// 00-ferroband.conflist, the program, and its other names, in whose place come back the programs that had them before.
/// The daemon need not run for that, and if it still does it puts nothing back until it is started anew.
///
/// With --all-nodes it is done on every node, by the node daemons themselves, before their DaemonSet is deleted; the chart does so.
#[derive(Args, Debug)]
pub struct UninstallCommand {
    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Do not end when it is done, but wait for SIGTERM: a DaemonSet starts what ends again.
    #[arg(long)]
    hold: bool,

    /// Take Ferroband off every node of the cluster instead; needs the API server, not the node.
    #[arg(long, conflicts_with_all = ["root", "hold"])]
    all_nodes: bool,

    /// The namespace that Ferroband is installed in.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// How many seconds to wait for all nodes.
    #[arg(long, value_name = "SECONDS", default_value_t = 240, requires = "all_nodes")]
    patience: u64,
}

impl UninstallCommand {
    /// Begin to leave.
    pub fn run(self) -> anyhow::Result<()> {
        if self.all_nodes {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            return runtime.block_on(all_nodes::uninstall_all_nodes(
                &self.namespace,
                Duration::from_secs(self.patience),
            ));
        }
        let root = Root::at(self.root);
        let done = install::uninstall(&root, &root.path("etc/cni/net.d"), &root.path("opt/cni/bin"))?;
        let told = match done {
            true => "this node is as it was before Ferroband",
            false => "pods with attachments of Ferroband run here; the last one to go takes it along",
        };
        println!("{told}");
        if self.hold {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                install::termination_signal()?.await;
                anyhow::Ok(())
            })?;
        }
        Ok(())
    }
}
