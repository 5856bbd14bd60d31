//! Uninstalls Ferroband from a node.

use super::{cni_binary, create_dir, host_rules, removal::RENAMED_BY_CILIUM, write_atomically};
use crate::{Error, resolve::CONFLIST};
use ferroband_attach::{KEPT_RUN_FILES, KEPT_STATE, PendingUninstall, remove_leftovers};
use ferroband_daemon::shutdown_signal;
use ferroband_kernel::{Root, files::remove_file};
use std::path::{Path, PathBuf};
use tracing::info;

/// Restores the node to its state before Ferroband. This happens at once if no pod has an attachment, and
/// otherwise when the DEL of the last such pod is done. Returns `true` if the uninstallation is complete.
/// `net_d` and `bin_dir` are the runtime's directories under `root`. A running daemon does not reinstall
/// anything; a newly started daemon cancels the uninstallation.
pub fn uninstall(root: &Root, net_d: &Path, bin_dir: &Path) -> Result<bool, Error> {
    let relative = |path: PathBuf| match path.strip_prefix(root.base()) {
        Ok(inside) => inside.to_owned(),
        Err(_) => path,
    };
    // The marker file makes a running daemon stop reinstalling files, so it is written before any file is
    // removed.
    create_dir(&root.run("ferroband"))?;
    write_atomically(&uninstall_marker(root), &mut "".as_bytes(), 0o600)?;
    let mut pending = PendingUninstall::default();
    pending.remove.extend([CONFLIST, RENAMED_BY_CILIUM].map(|name| relative(net_d.join(name))));
    for (alias, saved) in cni_binary::list_aliases(bin_dir)? {
        pending.remove.push(relative(alias.clone()));
        pending.restore.extend(saved.map(|saved| (relative(saved), relative(alias))));
    }
    pending.remove.push(relative(bin_dir.join(cni_binary::BINARY_NAME)));
    pending.remove.extend(host_rules::paths());
    let done = pending.begin(root)?;
    match done {
        true => info!("Ferroband uninstalled from this node"),
        false => info!(
            "pods still have Ferroband attachments; the DEL of the last such pod completes the uninstallation"
        ),
    }
    Ok(done)
}

/// Cancels an uninstallation that still waits for pods.
pub fn cancel_uninstall(root: &Root) -> Result<(), Error> {
    let marker = uninstall_marker(root);
    remove_file(&marker).map_err(Error::file("remove", &marker))?;
    Ok(PendingUninstall::cancel(root)?)
}

/// Removes the daemon's own files at its end, if Ferroband was uninstalled from the node while it ran. If pods are
/// still attached, the DEL of the last one does it.
pub(crate) fn remove_own_files(root: &Root) -> Result<(), Error> {
    match is_uninstalled(root) && PendingUninstall::load(root)?.is_none() {
        true => Ok(remove_leftovers(root)?),
        false => Ok(()),
    }
}

/// Something of Ferroband that an uninstallation leaves on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    pub path: PathBuf,
    /// Why it stays, and how to remove it.
    pub reason: &'static str,
}

/// Lists the files that stay on the node after an uninstallation.
pub fn list_kept_files(root: &Root) -> Vec<KeptFile> {
    let state = KEPT_STATE.map(|name| (root.state(name), state_reason(name)));
    let run = KEPT_RUN_FILES.map(|name| (root.run("ferroband").join(name), SIMULATED));
    let options = (
        root.path("etc/modprobe.d/ferroband.conf"),
        "it sets the RDMA mode that a SriovNetworkPoolConfig requested; delete it to get the kernel's default at the \
         next boot",
    );
    let all = state.into_iter().chain(run).chain([options]);
    all.filter(|(path, _)| path.exists()).map(|(path, reason)| KeptFile { path, reason }).collect()
}

const SIMULATED: &str = "the simulated hardware still exists; run `ferroband sim down` to remove it";

fn state_reason(name: &str) -> &'static str {
    match name {
        "configure" => {
            "it has the original state of adapters that policies changed; their virtual functions stay, unless the \
             policies are deleted before the uninstallation"
        }
        "opensm" => "it may contain an administrator's partitions; delete it if opensm is not used any more",
        _ => SIMULATED,
    }
}

/// Whether Ferroband was uninstalled since the daemon started.
pub(crate) fn is_uninstalled(root: &Root) -> bool {
    uninstall_marker(root).exists()
}

/// Path of the file that marks the node as uninstalled. It is in /run, so a reboot removes it.
fn uninstall_marker(root: &Root) -> PathBuf {
    root.run("ferroband/left")
}

/// Path under which the foreign binary that `alias` replaced is saved.
pub(super) fn saved_path(alias: &Path) -> PathBuf {
    let mut name = alias.file_name().unwrap_or_default().to_owned();
    name.push(cni_binary::SAVED_SUFFIX);
    alias.with_file_name(name)
}

/// Returns a future that completes on SIGTERM or SIGINT. The signal handlers are installed at once.
pub fn termination_signal() -> Result<impl Future<Output = ()>, Error> {
    let failed = |e: std::io::Error| Error::Task { task: "signal handler", source: Some(Box::new(e)) };
    shutdown_signal().map_err(failed)
}
