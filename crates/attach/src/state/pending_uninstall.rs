//! Uninstalling from a node that still runs pods attached by Ferroband.
//!
//! ```text
//! uninstalled ── leaving.json ──▶ ADD: only the wrapped network, without the daemon
//!                                 DEL: from the journal, as always; that of the last pod with another network removes
//!                                      Ferroband's files
//! ```
//!
//! If the CNI configuration and the binary were removed at once, the runtime could not delete existing attachments. If
//! they stayed, an uninstalled Ferroband would block the network that it wraps.

use crate::protocol::{AttachmentId, Error};
use crate::state::journal::{Journal, JournalFile};
use crate::state::pending_status::PendingStatus;
use crate::state::{remove_leftovers, state_file};
use ferroband_kernel::{Root, files};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The cleanup that the DEL of the last attachment performs after an uninstallation. All paths are relative
/// to the host's root directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingUninstall {
    /// Files to remove, in this order: the configuration first, so that the runtime never calls a missing binary.
    pub remove: Vec<PathBuf>,
    /// Original files to restore, as (backup, destination).
    pub restore: Vec<(PathBuf, PathBuf)>,
}

impl PendingUninstall {
    /// The pending uninstallation of this node, if any.
    pub fn load(root: &Root) -> Result<Option<Self>, Error> {
        state_file::read(&path(root))
    }

    /// Start the uninstallation. Returns true if it finished at once because nothing is attached.
    pub fn begin(&self, root: &Root) -> Result<bool, Error> {
        state_file::write(&path(root), self)?;
        finish_if_idle(root)
    }

    /// Remove the file of a pending uninstallation, because it finished or Ferroband is installed again.
    pub fn cancel(root: &Root) -> Result<(), Error> {
        state_file::remove(&path(root))
    }

    fn remove_files(&self, root: &Root) -> Result<(), Error> {
        let failed = |doing, path: PathBuf| move |source| Error::File { path, doing, source };
        for file in self.remove.iter().map(|file| root.path(file)) {
            files::remove_file(&file).map_err(failed("remove", file))?;
        }
        for (backup, destination) in
            self.restore.iter().map(|(backup, destination)| (root.path(backup), root.path(destination)))
        {
            // Do not overwrite a file that was installed after the uninstallation began.
            if !destination.exists() && backup.exists() {
                fs::rename(&backup, &destination).map_err(failed("restore", destination))?;
            }
        }
        Ok(())
    }
}

/// Remove Ferroband's files if it is being uninstalled from the node and no sandbox needs it any more. Returns
/// whether it did.
pub(crate) fn finish_if_idle(root: &Root) -> Result<bool, Error> {
    let Some(pending) = PendingUninstall::load(root)? else { return Ok(false) };
    let journals = Journal::list(root)?;
    if journals.iter().any(|file| needs_ferroband(root, file)) {
        return Ok(false);
    }
    pending.remove_files(root)?;
    // The runtime now deletes the plain pods that are left by itself, so nothing else would remove their files.
    for id in journals.iter().filter_map(|file| AttachmentId::from_stem(&file.stem)) {
        Journal::remove(root, &id)?;
        PendingStatus::new(id).remove(root)?;
    }
    PendingUninstall::cancel(root)?;
    remove_leftovers(root)?;
    Ok(true)
}

/// Whether the DEL of a sandbox needs Ferroband. A journal that cannot be read may belong to any sandbox.
fn needs_ferroband(root: &Root, file: &JournalFile) -> bool {
    // containerd sends DEL to the configuration that is installed, after the uninstallation the wrapped network's.
    // CRI-O sends it to the configuration of the ADD, which libcni cached (ocicni, `loadNetworkFromCache`), and so
    // needs the plugin until the pod is deleted. The directory alone says nothing: a node daemon's mount creates it.
    let is_crio = root.run("crio/crio.sock").exists();
    is_crio || !file.journal.as_ref().is_ok_and(Journal::is_wrapped_only)
}

fn path(root: &Root) -> PathBuf {
    root.state("leaving.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninstall_is_immediate_without_attachments_and_restores_original_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("bin")).unwrap();
        let write_file = |name: &str, text: &str| fs::write(root.path(name), text).unwrap();
        write_file("bin/ferroband", "ferroband");
        write_file("bin/ipoib", "ferroband");
        write_file("bin/ipoib.saved", "original");
        let pending = PendingUninstall {
            remove: ["bin/absent", "bin/ipoib", "bin/ferroband"].map(PathBuf::from).to_vec(),
            restore: vec![("bin/ipoib.saved".into(), "bin/ipoib".into())],
        };
        fs::create_dir_all(root.state("journal")).unwrap();
        fs::write(root.state("journal/c1.json"), "{").unwrap();
        assert!(!pending.begin(&root).unwrap(), "an unreadable journal still belongs to an attachment");
        assert!(!finish_if_idle(&root).unwrap() && root.path("bin/ferroband").exists());
        fs::remove_file(root.state("journal/c1.json")).unwrap();
        assert!(finish_if_idle(&root).unwrap());
        assert!(!root.path("bin/ferroband").exists());
        assert_eq!(fs::read_to_string(root.path("bin/ipoib")).unwrap(), "original");
        assert!(!root.state("").exists(), "the state directory is removed too");
        assert!(!finish_if_idle(&root).unwrap() && PendingUninstall::load(&root).unwrap().is_none());
    }
}
