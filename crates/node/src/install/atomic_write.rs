//! Replaces files atomically.

use crate::Error;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Writes `content` to a temporary file with the permissions `mode`, syncs it, and renames it to `path`. The
/// binary of a running program can be replaced this way: the process keeps the old file until it ends.
pub fn write_atomically(path: &Path, content: &mut dyn Read, mode: u32) -> Result<(), Error> {
    let temporary = temporary_path(path);
    // A daemon that was killed before the rename has left its temporary file, which is removed here.
    match fs::remove_file(&temporary) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(Error::File { action: "remove", path: temporary, source });
        }
        _ => {}
    }
    let failed = |source| Error::File { action: "write", path: temporary.clone(), source };
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).map_err(failed)?;
    std::io::copy(content, &mut file).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    let failed = |source| Error::File { action: "replace", path: path.to_owned(), source };
    fs::rename(&temporary, path).map_err(failed)?;
    match path.parent().map(File::open) {
        Some(Ok(folder)) => folder.sync_all().map_err(failed),
        Some(Err(e)) => Err(failed(e)),
        None => Ok(()),
    }
}

/// Creates a directory and its parents, if they do not exist.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::File { action: "create", path: path.to_owned(), source })
}

/// Returns the name of the temporary file for `path`. It is hidden and has no extension that a container
/// runtime would read as a CNI configuration.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".ferroband-new");
    path.with_file_name(name)
}
