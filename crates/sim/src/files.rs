//! File operations with errors that contain the path.

use crate::Error;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a directory and its parents.
pub(crate) fn create_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| file_error("create directory", path, source))
}

/// Creates a directory with mode 0700, and its parents with default modes.
pub(crate) fn create_private_directory(path: &Path) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(file_error("create directory", path, source))
        }
        _ => Ok(()),
    }
}

/// Atomically writes a file with mode 0600 and syncs it.
pub(crate) fn write_private_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| file_error("write", path, source))
}

/// Atomically writes a file without sync, for data that is useless after a reboot.
pub(crate) fn write_volatile_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("new");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| file_error("write", path, source))
}

/// Removes a file. Succeeds if it does not exist.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    ignore_not_found(fs::remove_file(path)).map_err(|source| file_error("remove", path, source))
}

/// Removes a directory tree. Succeeds if it does not exist.
pub(crate) fn remove_directory(path: &Path) -> Result<(), Error> {
    ignore_not_found(fs::remove_dir_all(path)).map_err(|source| file_error("remove directory", path, source))
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(crate) fn file_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { doing, path: path.to_owned(), source }
}
