//! Leaving a node that still has pods of ours.
//!
//! ```text
//! uninstalled ── leaving.json ──▶ ADD: the wrapped network alone, without the daemon
//!                                 DEL: by the journal, as always; the last one removes our files from the node
//! ```
//!
//! If configuration and program went at once, the runtime could not delete what we attached; if they stayed for
//! ever, an uninstalled Ferroband would stand in the way of the network that it wraps.

use crate::journal::Journal;
use crate::plan::Attachment;
use crate::{Error, Invocation, chain, del, record};
use ferroband_kernel::Root;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;

/// What the last DEL has to do. All paths are relative to the machine's root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingUninstall {
    /// Files to remove, in this order: the configuration first, so that the runtime calls nobody who is gone.
    pub remove: Vec<PathBuf>,
    /// Foreign files to put back: where they are kept, and where they belong.
    pub restore: Vec<(PathBuf, PathBuf)>,
}

impl PendingUninstall {
    /// What is to be done, if this node is being left.
    pub fn load(root: &Root) -> Result<Option<Self>, Error> {
        record::read(&path(root))
    }

    /// Begin to leave; at once, if nothing of ours is attached. Says whether that is done.
    pub fn begin(&self, root: &Root) -> Result<bool, Error> {
        record::write(&path(root), self)?;
        finish_if_idle(root)
    }

    /// Stay after all.
    pub fn cancel(root: &Root) -> Result<(), Error> {
        record::remove(&path(root))
    }

    fn remove_files(&self, root: &Root) -> Result<(), Error> {
        let failed = |doing, path: PathBuf| move |source| Error::File { path, doing, source };
        for file in self.remove.iter().map(|file| root.path(file)) {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", file)(error));
                }
                _ => {}
            }
        }
        for (kept, place) in self.restore.iter().map(|(kept, place)| (root.path(kept), root.path(place))) {
            // Somebody may have installed another one in the meantime.
            if !place.exists() && kept.exists() {
                fs::rename(&kept, &place).map_err(failed("put back", place))?;
            }
        }
        Ok(())
    }
}

/// If this node is being left and nothing of ours is attached any more, remove our files. Says whether it did.
pub(crate) fn finish_if_idle(root: &Root) -> Result<bool, Error> {
    let Some(leaving) = PendingUninstall::load(root)? else { return Ok(false) };
    if !Journal::list(root)?.is_empty() {
        return Ok(false);
    }
    leaving.remove_files(root)?;
    PendingUninstall::cancel(root)?;
    Ok(true)
}

/// The network that an ADD gives a pod on a node that is being left: the one that the configuration wraps.
pub(crate) fn wrapped_network(call: &Invocation) -> Result<Attachment, Error> {
    let fields = call.config.fields();
    let missing =
        || Error::Field { field: "delegates".to_owned(), wanted: "a list with the network that is wrapped" };
    let mut network = chain::parse_foreign(
        del::wrapped_networks(fields).next().ok_or_else(missing)?.0,
        &call.ifname,
        true,
    )?;
    if let Some(given) = fields.get("runtimeConfig") {
        for step in &mut network.steps {
            step.config.insert("runtimeConfig".to_owned(), given.clone());
        }
    }
    Ok(network)
}

fn path(root: &Root) -> PathBuf {
    root.state("leaving.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_attachments_a_node_is_left_at_once_and_foreign_files_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("bin")).unwrap();
        let put = |name: &str, text: &str| fs::write(root.path(name), text).unwrap();
        put("bin/ferroband", "ours");
        put("bin/ipoib", "ours");
        put("bin/ipoib.saved", "theirs");
        let leaving = PendingUninstall {
            remove: ["bin/absent", "bin/ipoib", "bin/ferroband"].map(PathBuf::from).to_vec(),
            restore: vec![("bin/ipoib.saved".into(), "bin/ipoib".into())],
        };
        fs::create_dir_all(root.state("journal")).unwrap();
        fs::write(root.state("journal/c1.json"), "{").unwrap();
        assert!(!leaving.begin(&root).unwrap(), "a record that nobody can read is still somebody's");
        assert!(!finish_if_idle(&root).unwrap() && root.path("bin/ferroband").exists());
        fs::remove_file(root.state("journal/c1.json")).unwrap();
        assert!(finish_if_idle(&root).unwrap());
        assert!(!root.path("bin/ferroband").exists());
        assert_eq!(fs::read_to_string(root.path("bin/ipoib")).unwrap(), "theirs");
        assert!(!finish_if_idle(&root).unwrap() && PendingUninstall::load(&root).unwrap().is_none());
    }
}
