//! Ferroband's own files on a node, which are removed at the end of its uninstallation.
//!
//! ```text
//! var/lib/ferroband                        removed, except what describes hardware that keeps its configuration
//! run/ferroband                            removed, except what describes simulated hardware
//! var/lib/kubelet/*/ferroband-*.sock       removed if no process listens on them
//! ```

use crate::ipc::node_client::socket_path;
use crate::protocol::Error;
use crate::state::Lock;
use ferroband_kernel::{Root, files};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Entries of `var/lib/ferroband` that stay. They describe adapters, opensm's fabric and simulated hardware, which
/// an uninstallation does not change. A later installation needs them to undo what policies did.
pub const KEPT_STATE: [&str; 4] = ["configure", "opensm", "sim", "simulated-firmware.json"];
/// Entries of `run/ferroband` that stay, for the same reason.
pub const KEPT_RUN_FILES: [&str; 2] = ["simulation.json", "simulation.events"];
/// Directories in which the kubelet finds the sockets of device plugins.
const PLUGIN_DIRS: [&str; 2] = ["var/lib/kubelet/device-plugins", "var/lib/kubelet/plugins_registry"];

/// Remove everything that an uninstallation does not keep. The caller knows that no sandbox needs Ferroband. A running
/// daemon still uses these files, so they stay until it ends; it calls this function then.
pub fn remove_leftovers(root: &Root) -> Result<(), Error> {
    if is_served(&socket_path(root)) {
        return Ok(());
    }
    let (state, run) = (root.state(""), root.run("ferroband"));
    remove_entries(&state, &KEPT_STATE)?;
    // An empty directory of adapter states says nothing.
    remove_if_empty(&state.join("configure"));
    remove_if_empty(&state);
    for folder in PLUGIN_DIRS {
        remove_stale_sockets(&root.path(folder))?;
    }
    remove_free_locks(root, &run.join("lock"))?;
    remove_if_empty(&run.join("lock"));
    remove_entries(&run, &[&KEPT_RUN_FILES[..], &["lock"]].concat())?;
    remove_if_empty(&run);
    Ok(())
}

fn remove_entries(folder: &Path, kept: &[&str]) -> Result<(), Error> {
    for entry in entries(folder)? {
        if kept.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let path = entry.path();
        let removed = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        ignore_missing(removed, path)?;
    }
    Ok(())
}

/// Removes the sockets of Ferroband's device plugins on which no process listens. A standalone `ferroband device-plugin`
/// may still listen on one.
fn remove_stale_sockets(folder: &Path) -> Result<(), Error> {
    for entry in entries(folder)? {
        let name = entry.file_name();
        let own = name.to_str().is_some_and(|name| name.starts_with("ferroband-") && name.ends_with(".sock"));
        if own && !is_served(&entry.path()) {
            ignore_missing(fs::remove_file(entry.path()), entry.path())?;
        }
    }
    Ok(())
}

/// Removes the lock files that no call holds. A call whose lock file were removed would not exclude the next one.
fn remove_free_locks(root: &Root, folder: &Path) -> Result<(), Error> {
    for entry in entries(folder)? {
        let Some(stem) = entry.file_name().to_str().map(str::to_owned) else { continue };
        match Lock::acquire_stem(root, &stem, Duration::ZERO) {
            Ok(lock) => lock.release_and_remove(),
            Err(Error::Locked { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_served(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Removes an empty directory. It stays if something is in it, or if it is a mount point of the daemon's container.
fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>, Error> {
    let failed = |source| Error::File { path: folder.to_owned(), doing: "list", source };
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<Result<_, _>>().map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn ignore_missing(removed: std::io::Result<()>, path: PathBuf) -> Result<(), Error> {
    files::ignore_missing(removed).map_err(|source| Error::File { path, doing: "remove", source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn fixture() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for below in ["journal", "owed", "device", "configure", "new-in-a-later-release"] {
            fs::create_dir_all(root.state(below)).unwrap();
        }
        fs::write(root.state("owed/c1.json"), "{}").unwrap();
        fs::create_dir_all(root.run("ferroband/lock")).unwrap();
        for name in ["ready", "left", "lock/c1"] {
            fs::write(root.run("ferroband").join(name), "").unwrap();
        }
        fs::create_dir_all(root.path(PLUGIN_DIRS[0])).unwrap();
        (folder, root)
    }

    #[test]
    fn nothing_is_left_of_a_node_without_policies() {
        let (_folder, root) = fixture();
        // The listeners are dropped, so the sockets are stale.
        let plugins = root.path(PLUGIN_DIRS[0]);
        for socket in [socket_path(&root), plugins.join("ferroband-a.sock"), plugins.join("other.sock")] {
            drop(UnixListener::bind(socket).unwrap());
        }
        remove_leftovers(&root).unwrap();
        assert!(!root.state("").exists() && !root.run("ferroband").exists());
        let sockets: Vec<_> =
            fs::read_dir(&plugins).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(sockets, ["other.sock"], "the socket of another project stays");
        remove_leftovers(&root).unwrap();
    }

    #[test]
    fn files_of_hardware_that_keeps_its_configuration_stay() {
        let (_folder, root) = fixture();
        let kept = [
            root.state("configure/0000:3b:00.0.json"),
            root.state("sim/state.json"),
            root.run("ferroband/simulation.json"),
        ];
        for path in &kept {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        remove_leftovers(&root).unwrap();
        assert!(kept.iter().all(|path| path.exists()));
        assert_eq!(fs::read_dir(root.state("")).unwrap().count(), 2);
        assert_eq!(fs::read_dir(root.run("ferroband")).unwrap().count(), 1);
    }

    #[test]
    fn sockets_and_locks_in_use_stay() {
        let (_folder, root) = fixture();
        let plugin = root.path(PLUGIN_DIRS[0]).join("ferroband-a.sock");
        let _served = UnixListener::bind(&plugin).unwrap();
        let daemon = UnixListener::bind(socket_path(&root)).unwrap();
        remove_leftovers(&root).unwrap();
        assert!(root.run("ferroband/left").exists() && root.state("owed/c1.json").exists(), "a daemon runs");
        drop(daemon);
        let held = Lock::acquire_stem(&root, "c1", Duration::ZERO).unwrap();
        remove_leftovers(&root).unwrap();
        assert!(root.run("ferroband/lock/c1").exists() && plugin.exists());
        assert!(!root.run("ferroband/left").exists() && !root.state("").exists());
        drop(held);
        remove_leftovers(&root).unwrap();
        assert!(!root.run("ferroband").exists());
    }
}
