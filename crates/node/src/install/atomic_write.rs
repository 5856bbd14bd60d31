//! Creates directories and replaces files, with errors of the node daemon.

use crate::Error;
use ferroband_kernel::files;
use std::{fs, io::Read, path::Path};

/// See [`files::write_atomically`].
pub fn write_atomically(path: &Path, content: &mut dyn Read, mode: u32) -> Result<(), Error> {
    files::write_atomically(path, content, mode).map_err(|e| match e {
        ferroband_kernel::Error::File { doing, path, source } => Error::File { action: doing, path, source },
        other => other.into(),
    })
}

/// Creates a directory and its parents, if they do not exist.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::file("create", path))
}
