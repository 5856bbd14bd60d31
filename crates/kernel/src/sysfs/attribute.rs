//! Files and symlinks of a sysfs tree.

use crate::Error;
use ferroband_model::MalformedValue;
use nix::errno::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// Errors of an attribute that a driver does not support, or of a device that disappeared between listing and
/// reading. The attribute is treated as absent in both cases.
const ABSENT: [Errno; 4] = [Errno::ENOENT, Errno::ENODEV, Errno::EINVAL, Errno::EOPNOTSUPP];

/// Size of a page in bytes, the maximum length of an attribute (sysfs(5): `show` fills one page-sized
/// buffer).
const PAGE: usize = 4096;

/// Reads the text of an attribute without the line end. Returns `None` if the device does not have the attribute.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    match read_page(path) {
        Ok(text) => Ok(Some(text)),
        Err(source) if is_absent(&source) => Ok(None),
        Err(source) => Err(Error::File { doing: "read", path: path.to_owned(), source }),
    }
}

/// Reads an attribute with one read(2). std::fs::read_to_string needs twice as many system calls: it queries the
/// size, which sysfs does not know, and reads again to find the end.
fn read_page(path: &Path) -> io::Result<String> {
    let mut page = [0; PAGE];
    let mut file = File::open(path)?;
    let length = loop {
        match file.read(&mut page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    let text = std::str::from_utf8(&page[..length]);
    let text = text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(text.trim().to_owned())
}

/// Reads an attribute and parses it. Returns [`Error::MalformedFile`] if the text is not a valid `T`.
pub(super) fn read_parsed<T: FromStr<Err = MalformedValue>>(path: &Path) -> Result<Option<T>, Error> {
    match read_text(path)? {
        Some(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(source) => Err(Error::MalformedFile { path: path.to_owned(), source }),
        },
        None => Ok(None),
    }
}

/// Reads an attribute that is a decimal number or a hexadecimal number with `0x`.
pub(super) fn read_number(path: &Path) -> Result<Option<i64>, Error> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match value {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(Error::NotANumber { path: path.to_owned(), text }),
    }
}

/// Like [`read_number`], but returns [`Error::NotANumber`] if the number is outside the range of `T`.
pub(super) fn read_sized<T: TryFrom<i64>>(path: &Path) -> Result<Option<T>, Error> {
    match read_number(path)? {
        Some(value) => match T::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::NotANumber { path: path.to_owned(), text: value.to_string() }),
        },
        None => Ok(None),
    }
}

/// The sorted names in a directory; empty if it does not exist.
pub(super) fn list_names(directory: &Path) -> Result<Vec<String>, Error> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    match list() {
        Ok(names) => Ok(names),
        Err(source) if is_absent(&source) => Ok(Vec::new()),
        Err(source) => Err(Error::File { doing: "list", path: directory.to_owned(), source }),
    }
}

/// Returns the last path component of a symlink's target; `None` if the symlink does not exist.
pub(super) fn link_target(link: &Path) -> Result<Option<String>, Error> {
    match std::fs::read_link(link) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(source) if is_absent(&source) => Ok(None),
        Err(source) => Err(Error::File { doing: "read", path: link.to_owned(), source }),
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| ABSENT.contains(&Errno::from_raw(code)))
}
