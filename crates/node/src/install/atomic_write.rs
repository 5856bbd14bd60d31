//! Writing a file so that nobody ever sees half of it.

use crate::Error;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Put `content` at `path` with the permissions `mode`, in one step: a temporary file beside it, made durable, then
/// renamed over it. This also holds for programs that are running: the old file lives on until they end.
pub fn write_atomically(path: &Path, content: &mut dyn Read, mode: u32) -> Result<(), Error> {
    let temporary = temporary_path(path);
    // Left over from a daemon that was killed here.
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

/// The temporary name: hidden, and without an ending that a runtime would read as a configuration.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".ferroband-new");
    path.with_file_name(name)
}
