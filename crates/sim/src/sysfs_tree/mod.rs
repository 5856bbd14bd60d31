//! The sysfs tree of a simulated node.
//!
//! It has the layout of the kernel: attributes are below `devices`, and `class` and `bus` contain symlinks to them.
//! Symlinks are relative, so the tree can be mounted anywhere. New objects are written before they are linked, and
//! links are removed first, so a reader sees a device completely or not at all, or gets ENOENT.
//!
//! ```text
//! FunctionView ── a function of the node in its current state
//!   ├─ function   devices/pci…/0000:86:00.0, bus/pci           ├─ netdev     net/ibs5f0, class/net
//!   ├─ device     infiniband/mlx5_0, class/infiniband_verbs    └─ counters   counter files
//!   └─ port       ports/1
//! ```

pub(crate) mod counters;
mod device;
mod function;
mod netdev;
mod port;

pub(crate) use function::VFIO_DRIVER;

use crate::identity::SimIdentity;
use crate::state::{FunctionId, SimAdapter, SimFunction, SimState, SimVf};
use crate::{Error, HcaProfile, Profile, files};
use ferroband_model::{Guid, PciAddress};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file to which all attributes with value 0 are hard links.
const ZERO_FILE: &str = ".zero";
/// MTU of IPoIB datagrams with a 2048-byte link MTU: IPoIB's header has four bytes (RFC 4391).
pub(crate) const IPOIB_MTU: u32 = 2044;
pub(crate) const ETHERNET_MTU: u32 = 1500;

/// A simulated sysfs tree. The directory `base` corresponds to `/sys`.
#[derive(Clone, Debug)]
pub(crate) struct SysfsTree {
    base: PathBuf,
}

/// A PCI function with the profile of its adapter and its current state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionView<'a> {
    pub(crate) id: FunctionId,
    pub(crate) address: PciAddress,
    pub(crate) hca: &'a HcaProfile,
    pub(crate) adapter: &'a SimAdapter,
    pub(crate) function: &'a SimFunction,
    /// Set for virtual functions only.
    pub(crate) vf: Option<&'a SimVf>,
    pub(crate) identity: SimIdentity,
}

impl<'a> FunctionView<'a> {
    pub(crate) fn new(
        profile: &'a Profile,
        state: &'a SimState,
        identity: SimIdentity,
        id: FunctionId,
    ) -> Option<Self> {
        let hca = profile.hcas.get(id.adapter)?;
        let adapter = state.adapters.get(id.adapter)?;
        let address = match id.vf {
            None => hca.pci,
            Some(vf) => hca.vf_address(u16::try_from(vf).ok()?)?,
        };
        let vf_state = id.vf.and_then(|vf| adapter.vfs.get(vf));
        Some(Self { id, address, hca, adapter, function: state.function(id)?, vf: vf_state, identity })
    }

    /// Path of the function below the base directory of the sysfs tree: root complex, bridges, function. A
    /// virtual function is in the same directory as its physical function.
    pub(crate) fn sysfs_path(&self) -> PathBuf {
        pci_sysfs_path(&self.hca.behind, self.hca.pci).with_file_name(self.address.to_string())
    }
}

/// Path of a PCI function below the base directory of the sysfs tree.
pub(crate) fn pci_sysfs_path(behind: &[PciAddress], address: PciAddress) -> PathBuf {
    let top = behind.first().copied().unwrap_or(address);
    let mut path = PathBuf::from(format!("devices/pci{:04x}:{:02x}", top.domain(), top.bus()));
    path.extend(behind.iter().chain([&address]).map(ToString::to_string));
    path
}

impl SysfsTree {
    pub(crate) fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Atomically writes a file: a reader sees the old or the new content.
    fn write_file(&self, path: impl AsRef<Path>, content: impl ToString) -> Result<(), Error> {
        let path = self.base.join(path);
        let content = content.to_string() + "\n";
        let fresh = || std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let write = || match create_with_parent(&path, fresh) {
            Ok(mut file) => file.write_all(content.as_bytes()),
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Err(_) if std::fs::read(&path).is_ok_and(|existing| existing == content.as_bytes()) => Ok(()),
            Err(_) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let temporary = path.with_file_name(format!(".{name}"));
                std::fs::write(&temporary, &content)?;
                std::fs::rename(&temporary, &path)
            }
        };
        write().map_err(|source| files::file_error("write", &path, source))
    }

    /// Writes an attribute whose value is a number. Most values are 0 and stay 0. These attributes are hard
    /// links to one file, which takes a third of the time of separate files.
    fn write_number(&self, path: impl AsRef<Path>, value: u64) -> Result<(), Error> {
        let target = self.base.join(&path);
        let link = || std::fs::hard_link(self.base.join(ZERO_FILE), &target);
        if value == 0 && create_with_parent(&target, link).is_ok() {
            return Ok(());
        }
        self.write_file(path, value)
    }

    /// Creates a symlink at `path` to `target`, both relative to the base directory of the sysfs tree.
    fn symlink(&self, path: impl AsRef<Path>, target: &Path) -> Result<(), Error> {
        let above = path.as_ref().components().count().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", above).collect();
        let path = self.base.join(path);
        let target = up.join(target);
        let link = || std::os::unix::fs::symlink(&target, &path);
        let result = match create_with_parent(&path, link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                files::remove_file(&path)?;
                link()
            }
            result => result,
        };
        result.map_err(|source| files::file_error("create symlink", &path, source))
    }

    fn unlink(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_file(&self.base.join(path))
    }

    fn remove_directory(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_directory(&self.base.join(path))
    }
}

/// Calls `make`. If the parent directory is missing, creates it and calls `make` again.
fn create_with_parent<T>(path: &Path, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(path))?;
            make()
        }
        result => result,
    }
}

/// A GUID in the format of sysfs: four groups of four digits.
fn sysfs_guid(guid: Guid) -> String {
    let digits = format!("{:016x}", guid.value());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join(":")
}
