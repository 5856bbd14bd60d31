//! `ferroband uninstall`: removes Ferroband from this node or from all nodes.

mod all_nodes;
mod cluster_cleanup;
mod kept_objects;

use crate::connection::block_on;
use clap::Args;
use ferroband_kernel::Root;
use ferroband_node::install;
use std::{path::PathBuf, time::Duration};

/// Remove Ferroband from this node
///
/// Running pods are not affected. If none of them has an attachment of Ferroband, the node is restored immediately.
/// Otherwise new pods get only the cluster's default network, and the deletion of the last attached pod removes the
/// rest: the CNI configuration 00-ferroband.conflist, the CNI plugin and its aliases, and Ferroband's state and
/// sockets. Files that the aliases replaced are restored. The daemon is not required for this. If it still runs, it
/// reinstalls nothing until it is restarted, and removes its own files when it ends. The command lists what stays.
///
/// With --all-nodes, the pods of the node DaemonSet do this on every node. Then the cluster daemon is stopped, and
/// the labels and conditions of nodes and Ferroband's own objects are removed. The addresses of running pods are written
/// into the objects of Whereabouts and Spiderpool, so that these systems can take over again. Objects that describe
/// running pods stay; run the command again when these pods are deleted. Run it before the DaemonSet is deleted; `helm uninstall`
/// runs it automatically.
#[derive(Args, Debug)]
pub struct UninstallCommand {
    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Wait for SIGTERM when done, because a DaemonSet would restart a container that exits.
    #[arg(long)]
    hold: bool,

    /// Remove Ferroband from all nodes of the cluster, through the API server.
    #[arg(long, conflicts_with_all = ["root", "hold"])]
    all_nodes: bool,

    /// Namespace in which Ferroband is installed; used only with --all-nodes.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "ferroband-system")]
    namespace: String,

    /// Continue although pools have more addresses than Whereabouts' or Spiderpool's objects can hold. These systems must
    /// then not assign addresses of these pools while the pods run.
    #[arg(long, requires = "all_nodes")]
    without_records: bool,

    /// Maximum number of seconds to wait until Ferroband is removed from all nodes.
    #[arg(long, value_name = "SECONDS", default_value_t = 240, requires = "all_nodes")]
    patience: u64,
}

impl UninstallCommand {
    pub fn run(self) -> anyhow::Result<()> {
        if self.all_nodes {
            let timeout = Duration::from_secs(self.patience);
            return block_on(all_nodes::uninstall_all_nodes(&self.namespace, timeout, self.without_records));
        }
        let root = Root::at(self.root);
        let done = install::uninstall(&root, &root.path("etc/cni/net.d"), &root.path("opt/cni/bin"))?;
        let message = match done {
            true => "Ferroband is removed from this node",
            false => "pods attached by Ferroband still run; it is removed when the last of them is deleted",
        };
        println!("{message}");
        for kept in install::list_kept_files(&root) {
            println!("stays: {}: {}", kept.path.display(), kept.reason);
        }
        if !done {
            println!(
                "stays: addresses and partition members of these pods; see `ferroband uninstall --help`"
            );
        }
        if self.hold {
            block_on(async {
                install::termination_signal()?.await;
                Ok(())
            })?;
        }
        Ok(())
    }
}
