//! Taking Ferroband off a node.

use super::{CONFLIST, cni_binary, write_atomically};
use crate::Error;
use ferroband_attach::PendingUninstall;
use ferroband_kernel::Root;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};
use tracing::info;

/// Let the node be as it was before Ferroband: at once if no pod has an attachment of ours, else with the last DEL. Says
/// whether it is done. `net_d` and `programs` are the runtime's folders under `root`. A daemon that still runs
/// puts nothing back; one that is started anew stays.
pub fn uninstall(root: &Root, net_d: &Path, programs: &Path) -> Result<bool, Error> {
    let relative = |path: PathBuf| match path.strip_prefix(root.base()) {
        Ok(inside) => inside.to_owned(),
        Err(_) => path,
    };
    // First, so that a daemon that still runs keeps its hands off.
    let run = root.run("ferroband");
    fs::create_dir_all(&run).map_err(|source| Error::File { action: "make", path: run, source })?;
    write_atomically(&uninstall_marker(root), &mut "".as_bytes(), 0o600)?;
    let mut leaving = PendingUninstall::default();
    leaving.remove.push(relative(net_d.join(CONFLIST)));
    for (alias, saved) in cni_binary::list_aliases(programs)? {
        leaving.remove.push(relative(alias.clone()));
        leaving.restore.extend(saved.map(|saved| (relative(saved), relative(alias))));
    }
    leaving.remove.push(relative(programs.join(cni_binary::BINARY_NAME)));
    let done = leaving.begin(root)?;
    match done {
        true => info!("this node is as it was before Ferroband"),
        false => info!("pods of Ferroband are running; the last one to go takes it along"),
    }
    Ok(done)
}

/// Stay: what an earlier uninstall began is not carried on.
pub fn cancel_uninstall(root: &Root) -> Result<(), Error> {
    match fs::remove_file(uninstall_marker(root)) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(Error::File { action: "remove", path: uninstall_marker(root), source: e });
        }
        _ => {}
    }
    Ok(PendingUninstall::cancel(root)?)
}

/// Whether the node was left since the daemon was started.
pub(crate) fn is_uninstalled(root: &Root) -> bool {
    uninstall_marker(root).exists()
}

/// Until the next boot: a node that is booted with a daemon on it has one.
fn uninstall_marker(root: &Root) -> PathBuf {
    root.run("ferroband/left")
}

/// Where the runtime finds the saved program of an alias.
pub(super) fn saved_path(alias: &Path) -> PathBuf {
    let mut name = alias.file_name().unwrap_or_default().to_owned();
    name.push(cni_binary::SAVED_SUFFIX);
    alias.with_file_name(name)
}

/// Completes when SIGTERM or SIGINT comes.
pub fn termination_signal() -> Result<impl Future<Output = ()>, Error> {
    crate::run::stop_signal()
}
