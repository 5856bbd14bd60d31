//! File operations with errors that contain the path.

use crate::Error;
use ferroband_kernel::files;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
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
    files::write_atomically(path, &mut &*content, 0o600).map_err(into_file_error)
}

/// Atomically writes a file without sync, for data that is useless after a reboot.
pub(crate) fn write_volatile_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    files::write_volatile(path, &mut &*content, 0o600).map_err(into_file_error)
}

fn into_file_error(error: ferroband_kernel::Error) -> Error {
    match error {
        ferroband_kernel::Error::File { doing, path, source } => Error::File { doing, path, source },
        other => other.into(),
    }
}

/// Removes a file. Succeeds if it does not exist.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    files::remove_file(path).map_err(|source| file_error("remove", path, source))
}

/// Removes a directory tree. Succeeds if it does not exist.
pub(crate) fn remove_directory(path: &Path) -> Result<(), Error> {
    files::ignore_missing(fs::remove_dir_all(path))
        .map_err(|source| file_error("remove directory", path, source))
}

pub(crate) fn file_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { doing, path: path.to_owned(), source }
}
