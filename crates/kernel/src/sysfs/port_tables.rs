//! P_Key and GID tables of ports.

use super::attribute;
use crate::{Error, Root};
use ferroband_model::{Guid, MalformedValue, PKey};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// An entry of the GID table of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    pub slot: u32,
    /// GID: subnet prefix and GUID on InfiniBand, IP address on Ethernet.
    pub gid: Ipv6Addr,
    /// Type: `IB/RoCE v1` or `RoCE v2`; `None` if the kernel does not report it.
    pub kind: Option<String>,
    /// Network interface of the entry; Ethernet only.
    pub netdev: Option<String>,
}

impl GidEntry {
    /// The GUID in an InfiniBand GID, which is its lower half.
    pub fn guid(&self) -> Guid {
        let [.., a, b, c, d, e, f, g, h] = self.gid.octets();
        Guid::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Slot numbers and P_Keys of the P_Key table of a port. Empty slots are omitted.
pub fn pkeys(root: &Root, device: &str, port: u32) -> Result<Vec<(u32, PKey)>, Error> {
    read_pkeys(&directory(root, device, port).join("pkeys"))
}

pub(super) fn read_pkeys(directory: &Path) -> Result<Vec<(u32, PKey)>, Error> {
    let mut slots: Vec<(u32, PKey)> = Vec::new();
    for name in attribute::list_names(directory)? {
        let Ok(slot) = name.parse() else { continue };
        let value: Option<u16> = attribute::read_sized(&directory.join(name))?;
        slots.extend(value.and_then(PKey::new).map(|key| (slot, key)));
    }
    slots.sort();
    Ok(slots)
}

/// The GID table of a port, ordered by slot. Empty slots are omitted.
pub fn gids(root: &Root, device: &str, port: u32) -> Result<Vec<GidEntry>, Error> {
    let directory = directory(root, device, port);
    let mut entries = Vec::new();
    for name in attribute::list_names(&directory.join("gids"))? {
        let Ok(slot) = name.parse() else { continue };
        let path = directory.join("gids").join(&name);
        let Some(text) = attribute::read_text(&path)? else { continue };
        let gid: Ipv6Addr =
            text.parse().map_err(|_| Error::MalformedFile { path, source: MalformedValue::Gid(text) })?;
        if gid.is_unspecified() {
            continue;
        }
        // For an entry that was just removed, the kernel returns EINVAL, which is read as `None`.
        let attribute = |of: &str| attribute::read_text(&directory.join("gid_attrs").join(of).join(&name));
        entries.push(GidEntry { slot, gid, kind: attribute("types")?, netdev: attribute("ndevs")? });
    }
    entries.sort_by_key(|entry| entry.slot);
    Ok(entries)
}

fn directory(root: &Root, device: &str, port: u32) -> PathBuf {
    root.sys("class/infiniband").join(device).join("ports").join(port.to_string())
}
