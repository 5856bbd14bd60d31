//! `ferroband uninstall`.

use clap::Args;
use ferroband_kernel::Root;
use ferroband_node::install;
use std::path::PathBuf;

/// Take Ferroband off this node
///
/// Pods go on. If none of them has an attachment of Ferroband's, the node is at once as it was before; else new pods get
/// the cluster's default network alone, and the deletion of the last such pod removes the rest: the CNI configuration
/// 00-ferroband.conflist, the program, and its other names, in whose place come back the programs that had them before.
/// The daemon need not run for that, and if it still does it puts nothing back until it is started anew.
///
/// To run it on every node, let a DaemonSet do so with the folders of the daemon and --hold.
#[derive(Args, Debug)]
pub struct Uninstall {
    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Do not end when it is done, but wait for SIGTERM: a DaemonSet starts what ends again.
    #[arg(long)]
    hold: bool,
}

impl Uninstall {
    /// Begin to leave.
    pub fn run(self) -> anyhow::Result<()> {
        let root = Root::at(self.root);
        let done = install::leave(&root, &root.path("etc/cni/net.d"), &root.path("opt/cni/bin"))?;
        let told = match done {
            true => "this node is as it was before Ferroband",
            false => "pods with attachments of Ferroband run here; the last one to go takes it along",
        };
        println!("{told}");
        if self.hold {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                install::held()?.await;
                anyhow::Ok(())
            })?;
        }
        Ok(())
    }
}
