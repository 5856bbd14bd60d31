//! File operations with errors that contain the path.

use crate::Error;
use ferroband_kernel::files;
use serde::{Serialize, de::DeserializeOwned};
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

/// Reads a JSON file. Returns `None` if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|source| invalid_file(path, source)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_error("read", path, source)),
    }
}

/// Atomically writes a JSON file without sync, for data that is useless after a reboot.
pub(crate) fn write_volatile_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write_volatile_file(path, &serde_json::to_vec(value).map_err(|source| invalid_file(path, source))?)
}

/// Atomically writes a JSON file that people read, with mode 0600, and syncs it.
pub(crate) fn write_private_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let content = serde_json::to_vec_pretty(value).map_err(|source| invalid_file(path, source))?;
    files::write_atomically(path, &mut content.as_slice(), 0o600).map_err(into_file_error)
}

fn invalid_file(path: &Path, source: serde_json::Error) -> Error {
    Error::InvalidFile { path: path.to_owned(), source }
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
