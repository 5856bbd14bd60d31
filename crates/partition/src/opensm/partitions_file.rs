//! Atomic reads and writes of partitions.conf.

use super::grammar::parse;
use crate::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `text` to `path` atomically, after parsing it once more: temporary file in the same directory, fsync, rename,
/// fsync of the directory. opensm may read the file at any time and sees either the old or the new text.
pub fn write_partitions_file(path: &Path, text: &str) -> Result<(), Error> {
    parse(text)?;
    let failed = |source| Error::File { operation: "write", path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.ferroband"));
    let put = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    };
    put().map_err(failed)
}

/// Returns the content of the partitions file, or `None` if it does not exist.
pub(super) fn read_partitions_file(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { operation: "read", path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: partitions 71
    #[test]
    fn invalid_file_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opensm/partitions.conf");
        assert!(write_partitions_file(&path, "").is_err() && !path.exists());
        let good = "Default=0x7fff: ALL, SELF=full;\n";
        write_partitions_file(&path, good).unwrap();
        for bad in ["", "# only this\n", "Default=0x7fff: ALL, SELF=full;\na=0x5: 0x12;\n"] {
            assert!(write_partitions_file(&path, bad).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), good);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
