//! The device files through which programs use RDMA devices.

use super::attribute;
use crate::{Error, Root};
use std::path::PathBuf;

/// A character device under `/dev/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharDevice {
    /// Its name there: `uverbs0`.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its path on this machine, for whoever opens or mounts it.
    pub path: PathBuf,
    /// Its number, major and minor, as sysfs has it.
    pub number: Option<(u32, u32)>,
}

/// What a device file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
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
pub fn of(root: &Root, device: &str) -> Result<Vec<CharDevice>, Error> {
    let mut found = Vec::new();
    for class in ["infiniband_verbs", "infiniband_mad"] {
        let directory = root.sys("class").join(class);
        for name in attribute::names(&directory)? {
            let at = |file: &str| directory.join(&name).join(file);
            // `abi_version` lies among them and has no `ibdev`; ENOTDIR is what reading below it answers.
            if !directory.join(&name).is_dir() || attribute::text(&at("ibdev"))?.as_deref() != Some(device) {
                continue;
            }
            let port = attribute::sized(&at("port"))?.unwrap_or(1);
            let role = match name.trim_end_matches(|digit: char| digit.is_ascii_digit()) {
                "uverbs" => Role::Verbs,
                "umad" => Role::Management { port },
                "issm" => Role::SubnetManager { port },
                _ => continue,
            };
            let number = attribute::text(&at("dev"))?.and_then(|text| number(&text));
            found.push(CharDevice { path: path(root, &name), name, role, number });
        }
    }
    found.sort_by(|one, other| (one.role, &one.name).cmp(&(other.role, &other.name)));
    Ok(found)
}

/// The connection manager's device file, where the machine has one.
pub fn connection_manager(root: &Root) -> Result<Option<CharDevice>, Error> {
    let name = "rdma_cm";
    let path = path(root, name);
    if !path.exists() {
        return Ok(None);
    }
    let number = attribute::text(&root.sys("class/misc/rdma_cm/dev"))?.and_then(|text| number(&text));
    Ok(Some(CharDevice { name: name.to_owned(), role: Role::ConnectionManager, path, number }))
}

fn path(root: &Root, name: &str) -> PathBuf {
    root.dev("infiniband").join(name)
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
