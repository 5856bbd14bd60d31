//! RDMA devices and their ports.

use super::attribute;
use super::chardev::{self, CharDevice};
use crate::{Error, Root};
use ferroband_model::{Guid, LinkLayer, MalformedValue, PKey, PciAddress};
use std::path::Path;

/// An RDMA device as sysfs shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysfsRdmaDevice {
    /// Device name, such as `mlx5_0`. It can change; the PCI address does not.
    pub name: String,
    pub node_guid: Option<Guid>,
    pub firmware: Option<String>,
    /// PCI function of the device; software devices have none.
    pub pci: Option<PciAddress>,
    /// Network interfaces of the same PCI function in this network namespace.
    pub netdevs: Vec<String>,
    /// Ports, ordered by number.
    pub ports: Vec<SysfsPort>,
    /// Character devices of this RDMA device, such as `uverbs0` and `umad0`.
    pub files: Vec<CharDevice>,
    /// Why the attributes that the adapter itself provides cannot be read. GUID, firmware and ports are then empty.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysfsPort {
    /// Port number, starting at 1.
    pub number: u32,
    /// Link layer; `None` if the driver does not report it.
    pub link_layer: Option<LinkLayer>,
    pub state: PortState,
    /// Physical state as sysfs shows it: `LinkUp`, `Polling`.
    pub phys_state: Option<String>,
    /// Rate as sysfs shows it: `100 Gb/sec (4X EDR)`.
    pub rate: Option<String>,
    /// Local identifier; 0 until a subnet manager assigns one.
    pub lid: Option<u16>,
    /// LID of the subnet manager.
    pub sm_lid: Option<u16>,
    /// Port GUID: the lower half of the first GID.
    pub guid: Option<Guid>,
    /// P_Key table in the order of the slots, without empty slots.
    pub pkeys: Vec<PKey>,
}

/// State of a port: enum ib_port_state of rdma/ib_verbs.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// 1: no link.
    Down,
    /// 2: the link is up, but the subnet manager has not configured the port.
    Init,
    /// 3: the subnet manager has configured the port, which is not yet active.
    Armed,
    /// 4: the port carries traffic.
    Active,
    Unknown,
}

impl PortState {
    /// Converts a number of the kernel; an undefined number becomes `Unknown`.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Down,
            2 => Self::Init,
            3 => Self::Armed,
            4 => Self::Active,
            _ => Self::Unknown,
        }
    }
}

/// Identity of an RDMA device, without port states, port tables and character devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaIdentity {
    pub name: String,
    pub node_guid: Option<Guid>,
    /// GUID of the first port.
    pub port_guid: Option<Guid>,
    /// Link layer of the first port.
    pub link_layer: Option<LinkLayer>,
}

/// Identity of the RDMA device `name`. This is called for every pod, so it reads only three files, whereas
/// [`device`] reads hundreds.
pub fn identity(root: &Root, name: &str) -> Result<RdmaIdentity, Error> {
    let directory = root.sys("class/infiniband").join(name);
    let port = directory.join("ports/1");
    Ok(RdmaIdentity {
        name: name.to_owned(),
        node_guid: attribute::read_parsed(&directory.join("node_guid"))?,
        port_guid: read_port_guid(&port.join("gids/0"))?,
        link_layer: read_link_layer(&port)?,
    })
}

/// All RDMA devices, ordered by name. Devices that disappear while they are read are omitted. A device that cannot be
/// read has an `error`: an adapter whose firmware hangs answers with EIO or ETIMEDOUT, and must not hide the others.
pub fn devices(root: &Root) -> Result<Vec<SysfsRdmaDevice>, Error> {
    let mut devices = Vec::new();
    let mut files = chardev::by_device(root)?;
    for name in attribute::list_names(&root.sys("class/infiniband"))? {
        let files = files.remove(&name).unwrap_or_default();
        match read_device(root, &name, files.clone()) {
            Ok(device) => devices.extend(device),
            Err(error) => devices.push(unreadable_device(root, name, files, &error)),
        }
    }
    Ok(devices)
}

/// The RDMA device `name`; `None` if it does not exist.
pub fn device(root: &Root, name: &str) -> Result<Option<SysfsRdmaDevice>, Error> {
    read_device(root, name, chardev::of_device(root, name)?)
}

fn read_device(root: &Root, name: &str, files: Vec<CharDevice>) -> Result<Option<SysfsRdmaDevice>, Error> {
    let directory = root.sys("class/infiniband").join(name);
    let ports = read_ports(&directory.join("ports"))?;
    let device = SysfsRdmaDevice {
        name: name.to_owned(),
        node_guid: attribute::read_parsed(&directory.join("node_guid"))?,
        firmware: attribute::read_text(&directory.join("fw_ver"))?,
        pci: pci_ancestor(&directory.join("device")),
        netdevs: attribute::list_names(&directory.join("device/net"))?,
        ports,
        files,
        error: None,
    };
    Ok(directory.exists().then_some(device))
}

/// A device with what is known without the adapter's answer.
fn unreadable_device(root: &Root, name: String, files: Vec<CharDevice>, error: &Error) -> SysfsRdmaDevice {
    let device = root.sys("class/infiniband").join(&name).join("device");
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    SysfsRdmaDevice {
        name,
        node_guid: None,
        firmware: None,
        pci: pci_ancestor(&device),
        netdevs: attribute::list_names(&device.join("net")).unwrap_or_default(),
        ports: Vec::new(),
        files,
        error: Some(format!("{error}{cause}")),
    }
}

/// Names of the RDMA devices of the PCI function `address` in this namespace.
pub fn device_names_of_function(root: &Root, address: PciAddress) -> Result<Vec<String>, Error> {
    attribute::list_names(&root.sys("bus/pci/devices").join(address.to_string()).join("infiniband"))
}

fn read_ports(directory: &Path) -> Result<Vec<SysfsPort>, Error> {
    let mut ports = Vec::new();
    for name in attribute::list_names(directory)? {
        if let Ok(number) = name.parse() {
            ports.push(read_port(&directory.join(name), number)?);
        }
    }
    ports.sort_by_key(|port| port.number);
    Ok(ports)
}

fn read_port(directory: &Path, number: u32) -> Result<SysfsPort, Error> {
    let at = |name: &str| directory.join(name);
    Ok(SysfsPort {
        number,
        link_layer: read_link_layer(directory)?,
        state: read_numbered(&at("state"))?
            .map_or(PortState::Unknown, |(state, _)| PortState::from_number(state)),
        phys_state: read_numbered(&at("phys_state"))?.map(|(_, word)| word),
        rate: attribute::read_text(&at("rate"))?,
        lid: attribute::read_sized(&at("lid"))?,
        sm_lid: attribute::read_sized(&at("sm_lid"))?,
        guid: read_port_guid(&at("gids/0"))?,
        pkeys: read_pkeys(&at("pkeys"))?,
    })
}

/// Reads the P_Key table of a port in the order of its slots. Empty slots are omitted.
fn read_pkeys(directory: &Path) -> Result<Vec<PKey>, Error> {
    let mut slots: Vec<(u32, PKey)> = Vec::new();
    for name in attribute::list_names(directory)? {
        let Ok(slot) = name.parse() else { continue };
        let value: Option<u16> = attribute::read_sized(&directory.join(name))?;
        slots.extend(value.and_then(PKey::new).map(|key| (slot, key)));
    }
    slots.sort();
    Ok(slots.into_iter().map(|(_, key)| key).collect())
}

fn read_link_layer(port: &Path) -> Result<Option<LinkLayer>, Error> {
    Ok(attribute::read_text(&port.join("link_layer"))?.and_then(|text| text.parse().ok()))
}

/// Reads an attribute such as `4: ACTIVE` and returns the number and the text.
fn read_numbered(path: &Path) -> Result<Option<(u8, String)>, Error> {
    let Some(text) = attribute::read_text(path)? else { return Ok(None) };
    let parts =
        text.split_once(':').and_then(|(number, word)| Some((number.parse().ok()?, word.trim().into())));
    match parts {
        Some(parts) => Ok(Some(parts)),
        None => Err(Error::NotANumber { path: path.to_owned(), text }),
    }
}

/// Reads the port GUID from a GID, which consists of the subnet prefix and the port GUID, written as eight groups
/// of four digits. Returns `None` if no GUID is set.
fn read_port_guid(path: &Path) -> Result<Option<Guid>, Error> {
    let Some(text) = attribute::read_text(path)? else { return Ok(None) };
    let lower = text.get(20..).unwrap_or_default();
    match lower.parse::<Guid>() {
        Ok(guid) => Ok(Some(guid).filter(|guid| !guid.is_unset())),
        Err(_) => Err(Error::MalformedFile { path: path.to_owned(), source: MalformedValue::Guid(text) }),
    }
}

/// The nearest PCI function in the sysfs path of the device. A subfunction (SF) is on the auxiliary bus, below its
/// PCI function.
fn pci_ancestor(device: &Path) -> Option<PciAddress> {
    let path = device.canonicalize().ok()?;
    path.iter().rev().find_map(|part| part.to_str()?.parse().ok())
}
