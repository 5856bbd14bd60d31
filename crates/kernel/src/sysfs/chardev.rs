//! Character devices through which programs use RDMA devices.

use super::attribute;
use crate::{Error, Root};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A character device in `/dev/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// File name, such as `uverbs0`.
    pub name: String,
    pub role: CharDeviceRole,
    /// Path of the device file on this host.
    pub path: PathBuf,
    /// Major and minor number from sysfs; `None` if sysfs does not show them.
    pub number: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CharDeviceRole {
    /// Verbs, for sending and receiving data.
    Verbs,
    /// The RDMA connection manager. A host has one.
    ConnectionManager,
    /// Management datagrams (MAD) of one port. Access allows reconfiguring the fabric.
    Management {
        /// Port number on the RDMA device.
        port: u32,
    },
    /// While a program has this device open, the port is marked as running a subnet manager.
    SubnetManager {
        /// Port number on the RDMA device.
        port: u32,
    },
}

/// Character devices of the RDMA device `device`.
pub fn of_device(root: &Root, device: &str) -> Result<Vec<CharDevice>, Error> {
    Ok(read_by_device(root, |owner| owner == device)?.remove(device).unwrap_or_default())
}

/// Character devices of all RDMA devices, by device name.
pub fn by_device(root: &Root) -> Result<BTreeMap<String, Vec<CharDevice>>, Error> {
    read_by_device(root, |_| true)
}

/// Reads the character devices of the RDMA devices that `include` accepts, keyed by RDMA device. In sysfs each
/// character device names its RDMA device, so one pass over the character devices is sufficient.
fn read_by_device(
    root: &Root,
    include: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<CharDevice>>, Error> {
    let mut found: BTreeMap<String, Vec<CharDevice>> = BTreeMap::new();
    for class in ["infiniband_verbs", "infiniband_mad"] {
        let directory = root.sys("class").join(class);
        for name in attribute::list_names(&directory)? {
            let at = |file: &str| directory.join(&name).join(file);
            let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            // `abi_version` is in the same directory and belongs to no device.
            if !["uverbs", "umad", "issm"].contains(&kind) {
                continue;
            }
            let Some(owner) = attribute::read_text(&at("ibdev"))?.filter(|owner| include(owner)) else {
                continue;
            };
            let port = attribute::read_sized(&at("port"))?.unwrap_or(1);
            let role = match kind {
                "umad" => CharDeviceRole::Management { port },
                "issm" => CharDeviceRole::SubnetManager { port },
                _ => CharDeviceRole::Verbs,
            };
            let number = attribute::read_text(&at("dev"))?.and_then(|text| parse_number(&text));
            let file = CharDevice { path: device_path(root, &name), name, role, number };
            found.entry(owner).or_default().push(file);
        }
    }
    for files in found.values_mut() {
        files.sort_by(|one, other| (one.role, &one.name).cmp(&(other.role, &other.name)));
    }
    Ok(found)
}

/// The character device of the connection manager, if it exists.
pub fn connection_manager(root: &Root) -> Result<Option<CharDevice>, Error> {
    let name = "rdma_cm";
    let path = device_path(root, name);
    if !path.exists() {
        return Ok(None);
    }
    let number =
        attribute::read_text(&root.sys("class/misc/rdma_cm/dev"))?.and_then(|text| parse_number(&text));
    Ok(Some(CharDevice { name: name.to_owned(), role: CharDeviceRole::ConnectionManager, path, number }))
}

fn device_path(root: &Root, name: &str) -> PathBuf {
    root.dev("infiniband").join(name)
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
