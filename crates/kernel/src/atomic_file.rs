//! Replaces files atomically: a reader sees the old or the new content, also after a crash.

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
    replace(path, content, mode, true)?;
    let failed = |source| Error::File { doing: "replace", path: path.to_owned(), source };
    match path.parent().map(File::open) {
        Some(Ok(folder)) => folder.sync_all().map_err(failed),
        Some(Err(e)) => Err(failed(e)),
        None => Ok(()),
    }
}

/// Writes like [`write_atomically`], but without sync, for data that is useless after a reboot.
pub fn write_volatile(path: &Path, content: &mut dyn Read, mode: u32) -> Result<(), Error> {
    replace(path, content, mode, false)
}

fn replace(path: &Path, content: &mut dyn Read, mode: u32, sync: bool) -> Result<(), Error> {
    let temporary = temporary_path(path);
    // A process that was killed before the rename has left its temporary file, which is removed here.
    match fs::remove_file(&temporary) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(Error::File { doing: "remove", path: temporary, source });
        }
        _ => {}
    }
    let mut write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        std::io::copy(content, &mut file)?;
        if sync { file.sync_all() } else { Ok(()) }
    };
    write().map_err(|source| Error::File { doing: "write", path: temporary.clone(), source })?;
    fs::rename(&temporary, path).map_err(|source| Error::File {
        doing: "replace",
        path: path.to_owned(),
        source,
    })
}

/// Returns the name of the temporary file for `path`. It is hidden and has no extension that a container
/// runtime would read as a CNI configuration.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".ferroband-new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn file_is_replaced_with_its_mode_and_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conflist");
        fs::write(&path, "old").unwrap();
        fs::write(temporary_path(&path), "left by a killed process").unwrap();
        for write in [write_atomically, write_volatile] {
            write(&path, &mut &b"new"[..], 0o600).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        let missing = write_atomically(&dir.path().join("none/x"), &mut &b""[..], 0o600).unwrap_err();
        assert!(missing.to_string().starts_with("cannot write"), "{missing}");
    }
}
