//! Small JSON files that are written atomically.

use crate::protocol::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Write `value` to `path`: temporary file, fsync, rename, fsync of the directory. Only root may read it.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), doing: "write", source };
    let text = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    make_parent(path)?;
    let temporary = temporary_path(path);
    let put = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_parent(path)
    };
    put().map_err(failed)
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
    for path in [&temporary_path(path), path] {
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

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_written_file_is_read_back_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/journal/c1.json");
        assert_eq!(read::<Value>(&path).unwrap(), None);
        write(&path, &json!({"a": 1})).unwrap();
        write(&path, &json!({"a": 2})).unwrap();
        assert_eq!(read::<Value>(&path).unwrap(), Some(json!({"a": 2})));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(list(path.parent().unwrap()).unwrap(), [path]);
    }

    #[test]
    fn remove_also_deletes_the_temporary_file_and_is_idempotent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c1.json");
        write(&path, &json!(1)).unwrap();
        fs::write(temporary_path(&path), "half").unwrap();
        assert_eq!(list(folder.path()).unwrap(), std::slice::from_ref(&path));
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        remove(&folder.path().join("absent/c1.json")).unwrap();
    }

    #[test]
    fn a_truncated_file_is_corrupt_and_an_unreadable_one_is_an_io_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c1.json");
        for text in ["", "{\"a\":", "\0\0\0\0"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(read::<Value>(&path), Err(Error::CorruptFile { .. })), "{text:?}");
        }
        assert!(matches!(read::<Value>(folder.path()), Err(Error::File { .. })));
    }

    #[test]
    fn a_failed_write_keeps_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c1.json");
        write(&path, &json!("old")).unwrap();
        fs::create_dir(temporary_path(&path)).unwrap();
        assert!(write(&path, &json!("new")).is_err());
        assert_eq!(read::<Value>(&path).unwrap(), Some(json!("old")));
    }
}
