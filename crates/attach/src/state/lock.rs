//! File locks: one call at a time per sandbox.

use crate::protocol::{AttachmentId, Error};
use crate::state::json_file;
use ferroband_kernel::Root;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Delay between attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Directory of the lock files. It is under /run, because no lock outlives a boot.
fn lock_dir(root: &Root) -> PathBuf {
    root.run("ferroband/lock")
}

/// The lock of an [`AttachmentId`], held until dropped.
///
/// It is a `flock`, so the kernel frees it when the last descriptor of a killed holder closes. Foreign plugins inherit
/// a descriptor: a DEL that follows a killed ADD waits for the orphaned plugin instead of racing it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Acquire the lock of `id`, waiting for at most `timeout`.
    pub fn acquire(root: &Root, id: &AttachmentId, timeout: Duration) -> Result<Self, Error> {
        Self::acquire_stem(root, &id.file_stem(), timeout)
    }

    /// Like [`Self::acquire`], for the lock file `stem`, which may also belong to a device.
    pub(crate) fn acquire_stem(root: &Root, stem: &str, timeout: Duration) -> Result<Self, Error> {
        let path = lock_dir(root).join(stem);
        let failed = |source| Error::File { path: path.clone(), doing: "lock", source };
        let end = Instant::now() + timeout;
        json_file::make_parent(&path)?;
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = file.map_err(failed)?;
            match file.try_lock() {
                // The previous holder may have removed the file between open and lock. Then this lock is on an
                // unlinked file that no other process will see.
                Ok(()) if same_file(&file, &path) => return Ok(Self { file, path }),
                Ok(()) => continue,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Locked { path }),
            }
        }
    }

    /// The descriptor, for another process that is to hold the lock too.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Make the lock inheritable by child processes until the returned guard is dropped.
    pub(crate) fn inherit_to_children(&self) -> LockInheritGuard<'_> {
        set_inheritable(&self.file, true);
        LockInheritGuard(&self.file)
    }

    /// Release the lock and remove its file. Called when nothing is left of the sandbox.
    pub fn release_and_remove(self) {
        // If the removal fails, an empty file is left, which the next call of this container reuses.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlock explicitly: a foreign plugin may have left a background process with a copy of the
        // descriptor, and LOCK_UN frees the lock for all copies.
        let _ = self.file.unlock();
    }
}

/// While this guard lives, child processes inherit the lock.
#[derive(Debug)]
pub(crate) struct LockInheritGuard<'a>(&'a File);

impl Drop for LockInheritGuard<'_> {
    fn drop(&mut self) {
        set_inheritable(self.0, false);
    }
}

fn set_inheritable(file: &File, on: bool) {
    let flags = if on { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
    // This fails only for a closed descriptor.
    let _ = rustix::io::fcntl_setfd(file, flags);
}

fn same_file(file: &File, path: &std::path::Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::PluginType;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SHORT: Duration = Duration::from_millis(30);

    fn id() -> AttachmentId {
        AttachmentId::new(PluginType::Ferroband, "c1", "eth0")
    }

    #[test]
    fn a_second_caller_times_out_while_the_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let held = Lock::acquire(&root, &id(), SHORT).unwrap();
        assert!(matches!(Lock::acquire(&root, &id(), SHORT), Err(Error::Locked { .. })));
        let other = AttachmentId::new(PluginType::Ipoib, "c1", "net1");
        Lock::acquire(&root, &other, SHORT).unwrap();
        drop(held);
        Lock::acquire(&root, &id(), SHORT).unwrap().release_and_remove();
        assert!(!lock_dir(&root).join("c1").exists());
    }

    #[test]
    fn there_are_never_two_holders_even_when_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let holders = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::acquire(&root, &id(), Duration::from_secs(30)).unwrap();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        lock.release_and_remove();
                    }
                });
            }
        });
    }

    #[test]
    fn an_orphaned_plugin_keeps_the_lock_but_a_finished_call_frees_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let lock = Lock::acquire(&root, &id(), SHORT).unwrap();
        let guard = lock.inherit_to_children();
        let mut orphan = Command::new("sleep").arg("30").spawn().unwrap();
        drop(guard);
        // Simulate kill -9 of the call: no unlock runs, so the orphan's inherited descriptor must keep the
        // lock.
        let copy = lock.file.try_clone().unwrap();
        std::mem::forget(lock);
        assert!(matches!(Lock::acquire(&root, &id(), SHORT), Err(Error::Locked { .. })));
        copy.unlock().unwrap();
        Lock::acquire(&root, &id(), SHORT).unwrap();
        orphan.kill().unwrap();
        orphan.wait().unwrap();
    }
}
