//! Small JSON files that are written atomically, and the locks of their owners.

use crate::protocol::{AttachmentId, Error};
use ferroband_kernel::{Error as KernelError, Root, files};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Write `value` to `path` atomically. Only root may read it.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), doing: "write", source };
    let text = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    make_parent(path)?;
    files::write_atomically(path, &mut text.as_slice(), 0o600).map_err(|error| match error {
        KernelError::File { source, .. } => failed(source),
        other => other.into(),
    })
}

/// Read the file at `path`, if it exists.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { path: path.to_owned(), doing: "read", source }),
    };
    let corrupt = |source| Error::CorruptFile { path: path.to_owned(), source };
    let mut reader = serde_json::Deserializer::from_slice(&text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(corrupt)?;
    Ok(Some(value))
}

/// Remove the file at `path` and the temporary file of a killed writer. Missing files are not an error.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let mut removed = false;
    for path in [&files::temporary_path(path), path] {
        match fs::remove_file(path) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::File { path: path.to_owned(), doing: "remove", source }),
        }
    }
    let synced = if removed { sync_parent(path) } else { Ok(()) };
    synced.map_err(|source| Error::File { path: path.to_owned(), doing: "remove", source })
}

/// List the JSON files of a directory, in no particular order; empty if it does not exist.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File { path: folder.to_owned(), doing: "list", source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Create the parent directory of `path`, accessible only by root.
pub(crate) fn make_parent(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        doing: "create",
        source,
    })
}

fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

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
        make_parent(&path)?;
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
mod tests;
