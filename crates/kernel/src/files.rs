//! Locations of the host's file trees, the current boot, and files that are replaced atomically: a reader sees the old
//! or the new content, also after a crash.

use crate::Error;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Base directory of all paths: `/` in production, a mount of the host's file system in a container, a temporary
/// directory in a test.
///
/// The trees of the hardware (`sys`, `dev`) may be in another directory, which is how simulated hardware replaces
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    base: PathBuf,
    hardware: Option<PathBuf>,
}

impl Default for Root {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Root {
    /// A root with all trees below `base`, including `sys` and `dev`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), hardware: None }
    }

    /// Returns a root whose `sys` and `dev` trees are below `directory`.
    #[must_use]
    pub fn with_hardware(self, directory: impl Into<PathBuf>) -> Self {
        Self { hardware: Some(directory.into()), ..self }
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The path of `relative` below the base. A leading slash is ignored, so the path is always below the base.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.base, relative.as_ref())
    }

    /// The path of `relative`, such as `class/net`, in sysfs.
    pub fn sys(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("sys")), relative.as_ref())
    }

    /// The path of the device file `relative`, such as `infiniband/uverbs0`.
    pub fn dev(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&below(self.hardware(), Path::new("dev")), relative.as_ref())
    }

    /// The path of `relative`, such as `sys/kernel/random/boot_id`, in procfs.
    pub fn proc_(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("proc"), relative.as_ref())
    }

    /// The path of `relative`, such as `ferroband/cni.sock`, below `run`, which is cleared at boot.
    pub fn run(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("run"), relative.as_ref())
    }

    /// The path of `relative` in the directory of Ferroband's persistent state, `var/lib/ferroband`.
    pub fn state(&self, relative: impl AsRef<Path>) -> PathBuf {
        below(&self.path("var/lib/ferroband"), relative.as_ref())
    }

    fn hardware(&self) -> &Path {
        self.hardware.as_deref().unwrap_or(&self.base)
    }
}

fn below(base: &Path, relative: &Path) -> PathBuf {
    base.join(relative.strip_prefix("/").unwrap_or(relative))
}

/// The kernel's random UUID of the current boot. Network namespaces, links and driver bindings recorded under
/// another boot ID no longer exist.
pub fn boot_id(root: &Root) -> Result<String, Error> {
    let path = root.proc_("sys/kernel/random/boot_id");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(Error::File { doing: "read", path, source }),
    }
}

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
    remove_file(&temporary).map_err(|source| Error::File {
        doing: "remove",
        path: temporary.clone(),
        source,
    })?;
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

/// Removes a file. Succeeds if it does not exist.
pub fn remove_file(path: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_file(path))
}

/// Treats the removal of a missing file or directory as a success.
pub fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
