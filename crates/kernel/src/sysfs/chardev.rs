//! The device files through which programs use RDMA devices.

use super::attribute;
use crate::{Error, Root};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A character device under `/dev/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// Its name there: `uverbs0`.
    pub name: String,
    /// What it is for.
    pub role: CharDeviceRole,
    /// Its path on this machine, for whoever opens or mounts it.
    pub path: PathBuf,
    /// Its number, major and minor, as sysfs has it.
    pub number: Option<(u32, u32)>,
}

/// What a device file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CharDeviceRole {
    /// Verbs: what programs need to send and receive.
    Verbs,
    /// Connection management, one for the whole machine.
    ConnectionManager,
    /// Management datagrams of one port. Who has it can rewrite the fabric.
    Management {
        /// The port of the RDMA device.
        port: u32,
    },
    /// The switch that declares a port to run a subnet manager.
    SubnetManager {
        /// The port of the RDMA device.
        port: u32,
    },
}

/// The device files of the RDMA device called `device`.
pub fn of_device(root: &Root, device: &str) -> Result<Vec<CharDevice>, Error> {
    Ok(read_by_device(root, |owner| owner == device)?.remove(device).unwrap_or_default())
}

/// The device files of all RDMA devices, by the device's name.
pub fn by_device(root: &Root) -> Result<BTreeMap<String, Vec<CharDevice>>, Error> {
    read_by_device(root, |_| true)
}

/// sysfs keeps the files by themselves, each naming its device: whoever wants those of many reads them once.
fn read_by_device(
    root: &Root,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<CharDevice>>, Error> {
    let mut found: BTreeMap<String, Vec<CharDevice>> = BTreeMap::new();
    for class in ["infiniband_verbs", "infiniband_mad"] {
        let directory = root.sys("class").join(class);
        for name in attribute::list_names(&directory)? {
            let at = |file: &str| directory.join(&name).join(file);
            let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            // `abi_version` lies among them and belongs to no device.
            if !["uverbs", "umad", "issm"].contains(&kind) {
                continue;
            }
            let Some(owner) = attribute::read_text(&at("ibdev"))?.filter(|owner| wanted(owner)) else {
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

/// The connection manager's device file, where the machine has one.
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
