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

pub(crate) use function::VFIO;

use crate::identity::Identity;
use crate::state::{Adapter, Function, State, Virtual, Which};
use crate::{Error, Hca, Profile, files};
use ferroband_model::{Guid, PciAddress};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file that is all zeros of the tree.
const ZERO: &str = ".zero";
/// The MTU of IPoIB datagrams over a 2048-byte path: four bytes are IPoIB's own header (RFC 4391).
pub(crate) const IPOIB_MTU: u32 = 2044;
/// The MTU of Ethernet.
pub(crate) const ETHERNET_MTU: u32 = 1500;

/// A tree: `base` is to be `sys`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    base: PathBuf,
}

/// A function of the machine, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    pub(crate) which: Which,
    pub(crate) address: PciAddress,
    pub(crate) hca: &'a Hca,
    pub(crate) adapter: &'a Adapter,
    pub(crate) function: &'a Function,
    /// What its physical function knows of it, when it is a virtual one.
    pub(crate) virtual_: Option<&'a Virtual>,
    pub(crate) identity: Identity,
}

impl<'a> Unit<'a> {
    pub(crate) fn of(
        profile: &'a Profile,
        state: &'a State,
        identity: Identity,
        which: Which,
    ) -> Option<Self> {
        let hca = profile.hcas.get(which.adapter)?;
        let adapter = state.adapters.get(which.adapter)?;
        let address = match which.vf {
            None => hca.pci,
            Some(vf) => hca.vf(u16::try_from(vf).ok()?)?,
        };
        let virtual_ = which.vf.and_then(|vf| adapter.vfs.get(vf));
        Some(Self { which, address, hca, adapter, function: state.function(which)?, virtual_, identity })
    }

    /// Where it is under `devices`: the root complex, the bridges, itself. Virtual functions are beside their
    /// physical one.
    pub(crate) fn place(&self) -> PathBuf {
        place(&self.hca.behind, self.hca.pci).with_file_name(self.address.to_string())
    }
}

/// Where a function is under `devices`.
pub(crate) fn place(behind: &[PciAddress], address: PciAddress) -> PathBuf {
    let top = behind.first().copied().unwrap_or(address);
    let mut place = PathBuf::from(format!("devices/pci{:04x}:{:02x}", top.domain(), top.bus()));
    place.extend(behind.iter().chain([&address]).map(ToString::to_string));
    place
}

impl Tree {
    pub(crate) fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Puts a file in place, whole: a reader sees the old content or the new one.
    fn file(&self, path: impl AsRef<Path>, content: impl ToString) -> Result<(), Error> {
        let path = self.base.join(path);
        let content = content.to_string() + "\n";
        let fresh = || std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let write = || match with_directory(&path, fresh) {
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
        write().map_err(|source| files::error("write", &path, source))
    }

    /// Puts a number in place. Most numbers of a tree are 0 and stay so: these are one file of many names,
    /// which is a third of the time that as many files take.
    fn number(&self, path: impl AsRef<Path>, value: u64) -> Result<(), Error> {
        let place = self.base.join(&path);
        let link = || std::fs::hard_link(self.base.join(ZERO), &place);
        if value == 0 && with_directory(&place, link).is_ok() {
            return Ok(());
        }
        self.file(path, value)
    }

    /// A link at `path` to `target`, both seen from the top of the tree.
    fn link(&self, path: impl AsRef<Path>, target: &Path) -> Result<(), Error> {
        let above = path.as_ref().components().count().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", above).collect();
        let path = self.base.join(path);
        let target = up.join(target);
        let link = || std::os::unix::fs::symlink(&target, &path);
        let made = match with_directory(&path, link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                files::remove_file(&path)?;
                link()
            }
            made => made,
        };
        made.map_err(|source| files::error("link", &path, source))
    }

    fn unlink(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_file(&self.base.join(path))
    }

    fn remove(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::remove_directory(&self.base.join(path))
    }
}

/// Makes something; and if it is the directory that is missing, that first.
fn with_directory<T>(path: &Path, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(path))?;
            make()
        }
        made => made,
    }
}

/// A GUID as sysfs writes it: four groups of four digits.
fn grouped(guid: Guid) -> String {
    let digits = format!("{:016x}", guid.value());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join(":")
}
