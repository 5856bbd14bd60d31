//! The sysfs tree of a simulated node.
//!
//! Laid out as the kernel does it: the facts are under `devices`, and `class` and `bus` hold links to them.
//! Links are relative, so the tree can be mounted anywhere. What comes is written before it is linked, and
//! what goes loses its links first, so a reader sees a device whole or not at all, or is told that a file is
//! gone.
//!
//! ```text
//! Unit ── a function of the machine, as it is now
//!   ├─ function   devices/pci…/0000:86:00.0, bus/pci           ├─ netdev     net/ibs5f0, class/net
//!   ├─ device     infiniband/mlx5_0, class/infiniband_verbs    └─ counters   what is counted, by name
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

/// The file that is all zeros of the tree.
const ZERO_FILE: &str = ".zero";
/// The MTU of IPoIB datagrams over a 2048-byte path: four bytes are IPoIB's own header (RFC 4391).
pub(crate) const IPOIB_MTU: u32 = 2044;
/// The MTU of Ethernet.
pub(crate) const ETHERNET_MTU: u32 = 1500;

/// A tree: `base` is to be `sys`.
#[derive(Clone, Debug)]
pub(crate) struct SysfsTree {
    base: PathBuf,
}

/// A function of the machine, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionView<'a> {
    pub(crate) id: FunctionId,
    pub(crate) address: PciAddress,
    pub(crate) hca: &'a HcaProfile,
    pub(crate) adapter: &'a SimAdapter,
    pub(crate) function: &'a SimFunction,
    /// What its physical function knows of it, when it is a virtual one.
    pub(crate) vf: Option<&'a SimVf>,
    pub(crate) identity: SimIdentity,
}

impl<'a> FunctionView<'a> {
    pub(crate) fn new(
        profile: &'a Profile,
        state: &'a SimState,
        identity: SimIdentity,
        which: FunctionId,
    ) -> Option<Self> {
        let hca = profile.hcas.get(which.adapter)?;
        let adapter = state.adapters.get(which.adapter)?;
        let address = match which.vf {
            None => hca.pci,
            Some(vf) => hca.vf_address(u16::try_from(vf).ok()?)?,
        };
        let virtual_ = which.vf.and_then(|vf| adapter.vfs.get(vf));
        Some(Self {
            id: which,
            address,
            hca,
            adapter,
            function: state.function(which)?,
            vf: virtual_,
            identity,
        })
    }

    /// Where it is under `devices`: the root complex, the bridges, itself. Virtual functions are beside their
    /// physical one.
    pub(crate) fn sysfs_path(&self) -> PathBuf {
        pci_sysfs_path(&self.hca.behind, self.hca.pci).with_file_name(self.address.to_string())
    }
}

/// Where a function is under `devices`.
pub(crate) fn pci_sysfs_path(behind: &[PciAddress], address: PciAddress) -> PathBuf {
    let top = behind.first().copied().unwrap_or(address);
    let mut place = PathBuf::from(format!("devices/pci{:04x}:{:02x}", top.domain(), top.bus()));
    place.extend(behind.iter().chain([&address]).map(ToString::to_string));
    place
}

impl SysfsTree {
    pub(crate) fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Puts a file in place, whole: a reader sees the old content or the new one.
    fn write_file(&self, path: impl AsRef<Path>, content: impl ToString) -> Result<(), Error> {
        let path = self.base.join(path);
        let content = content.to_string() + "\n";
        let fresh = || std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let write = || match create_with_parent(&path, fresh) {
            Ok(mut file) => file.write_all(content.as_bytes()),
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            Err(_) if std::fs::read(&path).is_ok_and(|there| there == content.as_bytes()) => Ok(()),
            Err(_) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let temporary = path.with_file_name(format!(".{name}"));
                std::fs::write(&temporary, &content)?;
                std::fs::rename(&temporary, &path)
            }
        };
        write().map_err(|source| files::file_error("write", &path, source))
    }

    /// Puts a number in place. Most numbers of a tree are 0 and stay so: these are one file of many names,
    /// which is a third of the time that as many files take.
    fn write_number(&self, path: impl AsRef<Path>, value: u64) -> Result<(), Error> {
        let place = self.base.join(&path);
        let link = || std::fs::hard_link(self.base.join(ZERO_FILE), &place);
        if value == 0 && create_with_parent(&place, link).is_ok() {
            return Ok(());
        }
        self.write_file(path, value)
    }

    /// A link at `path` to `target`, both seen from the top of the tree.
    fn symlink(&self, path: impl AsRef<Path>, target: &Path) -> Result<(), Error> {
        let above = path.as_ref().components().count().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", above).collect();
        let path = self.base.join(path);
        let target = up.join(target);
        let link = || std::os::unix::fs::symlink(&target, &path);
        let made = match create_with_parent(&path, link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                files::remove_file(&path)?;
                link()
            }
            made => made,
        };
        made.map_err(|source| files::file_error("link", &path, source))
    }

    fn unlink(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_file(&self.base.join(path))
    }

    fn remove_directory(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_directory(&self.base.join(path))
    }
}

/// Makes something; and if it is the directory that is missing, that first.
fn create_with_parent<T>(path: &Path, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(path))?;
            make()
        }
        made => made,
    }
}

/// A GUID as sysfs writes it: four groups of four digits.
fn sysfs_guid(guid: Guid) -> String {
    let digits = format!("{:016x}", guid.value());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join(":")
}
