//! One call at a time for each sandbox.

use crate::{AttachmentId, Error, record};
use ferroband_kernel::Root;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a held lock is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Where the locks are: no lock outlives a boot, so they are not on a disk.
fn lock_dir(root: &Root) -> PathBuf {
    root.run("ferroband/lock")
}

/// The lock of a [`Key`], held until dropped.
///
/// It is a `flock`, so the kernel frees it when a killed holder's last descriptor closes. While a foreign plugin
/// runs it inherits one: a DEL that follows a killed ADD then waits for the orphan
/// instead of racing it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Take the lock of `key`, waiting for at most `patience`.
    pub fn acquire(root: &Root, key: &AttachmentId, patience: Duration) -> Result<Self, Error> {
        Self::acquire_stem(root, &key.file_stem(), patience)
    }

    /// As [`Self::take`], for a key of which only the file name is known.
    pub(crate) fn acquire_stem(root: &Root, stem: &str, patience: Duration) -> Result<Self, Error> {
        let path = lock_dir(root).join(stem);
        let failed = |source| Error::File { path: path.clone(), doing: "lock", source };
        let end = Instant::now() + patience;
        record::make_parent(&path)?;
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = file.map_err(failed)?;
            match file.try_lock() {
                // The last holder may have removed the file between our open and our lock; then what we hold
                // is a lock that nobody else will ever see.
                Ok(()) if same_file(&file, &path) => return Ok(Self { file, path }),
                Ok(()) => continue,
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Locked { path }),
            }
        }
    }

    /// Its descriptor, for somebody who is to hold it as well.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Let programs that are started inherit the lock until the returned guard is dropped.
    pub(crate) fn inherit_to_children(&self) -> LockInheritGuard<'_> {
        set_inheritable(&self.file, true);
        LockInheritGuard(&self.file)
    }

    /// Remove the lock's file and let go: nothing is left of this sandbox.
    pub fn release_and_remove(self) {
        // Left behind it is one empty file, which the next call of this container takes again.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not left to closing: a foreign plugin may have left a daemon with a copy of the descriptor, and
        // LOCK_UN frees the lock for all copies.
        let _ = self.file.unlock();
    }
}

/// While this lives, programs that are started inherit the lock.
#[derive(Debug)]
pub(crate) struct LockInheritGuard<'a>(&'a File);

impl Drop for LockInheritGuard<'_> {
    fn drop(&mut self) {
        set_inheritable(self.0, false);
    }
}

fn set_inheritable(file: &File, on: bool) {
    let flags = if on { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
    // It fails only for a descriptor that is not open.
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
    use crate::PluginType;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SHORT: Duration = Duration::from_millis(30);

    fn key() -> AttachmentId {
        AttachmentId::new(PluginType::Ferroband, "c1", "eth0")
    }

    #[test]
    fn a_second_caller_waits_and_then_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let held = Lock::acquire(&root, &key(), SHORT).unwrap();
        assert!(matches!(Lock::acquire(&root, &key(), SHORT), Err(Error::Locked { .. })));
        let other = AttachmentId::new(PluginType::Ipoib, "c1", "net1");
        Lock::acquire(&root, &other, SHORT).unwrap();
        drop(held);
        Lock::acquire(&root, &key(), SHORT).unwrap().release_and_remove();
        assert!(!lock_dir(&root).join("c1").exists());
    }

    #[test]
    fn never_two_holders_even_when_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lock = Lock::acquire(&root, &key(), Duration::from_secs(30)).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
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
        let lock = Lock::acquire(&root, &key(), SHORT).unwrap();
        let lent = lock.inherit_to_children();
        let mut orphan = Command::new("sleep").arg("30").spawn().unwrap();
        drop(lent);
        // As after kill -9: the descriptor closes without an unlock.
        let copy = lock.file.try_clone().unwrap();
        std::mem::forget(lock);
        assert!(matches!(Lock::acquire(&root, &key(), SHORT), Err(Error::Locked { .. })));
        copy.unlock().unwrap();
        Lock::acquire(&root, &key(), SHORT).unwrap();
        orphan.kill().unwrap();
        orphan.wait().unwrap();
    }
}
