//! Character devices through which programs use RDMA devices.

use super::attribute;
use crate::{Error, Root};
use std::collections::BTreeMap;

/// A character device in `/dev/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// File name, such as `uverbs0`.
    pub name: String,
    pub role: CharDeviceRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CharDeviceRole {
    /// Verbs, for sending and receiving data.
    Verbs,
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
            found.entry(owner).or_default().push(CharDevice { name, role });
        }
    }
    for files in found.values_mut() {
        files.sort_by(|one, other| (one.role, &one.name).cmp(&(other.role, &other.name)));
    }
    Ok(found)
}
