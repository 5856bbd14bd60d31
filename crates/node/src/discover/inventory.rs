//! What this node has, in a form that can be shown, compared and sent.

use ferroband_kernel::{
    Error, Root,
    sysfs::{
        chardev::{self, CharDevice, Role},
        infiniband, pci,
    },
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The RDMA devices of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Whether the hardware is simulated.
    pub simulated: bool,
    /// The devices, by name.
    pub devices: Vec<RdmaDevice>,
    /// The connection manager's device file, one for the whole node.
    pub rdma_cm: Option<PathBuf>,
}

/// An RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RdmaDevice {
    /// Its name: `mlx5_0`.
    pub name: String,
    /// The PCI function it is; software devices have none.
    pub pci: Option<String>,
    /// Vendor and device of that function: `15b3:1017`.
    pub id: Option<String>,
    /// The driver.
    pub driver: Option<String>,
    /// The NUMA node.
    pub numa: Option<u32>,
    /// How many virtual functions it has, and could have.
    pub vfs: (u16, u16),
    /// Its firmware.
    pub firmware: Option<String>,
    /// Its node GUID.
    pub node_guid: Option<String>,
    /// Its interfaces in the host's network namespace.
    pub netdevs: Vec<String>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its device files that exist.
    pub files: Vec<DeviceFile>,
}

/// A port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// Its number, from 1.
    pub number: u32,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Its state: `Active`, `Down`, …
    pub state: String,
    /// Its rate in the kernel's words.
    pub rate: Option<String>,
    /// Its local identifier.
    pub lid: Option<u16>,
    /// The subnet manager's local identifier.
    pub sm_lid: Option<u16>,
    /// Its GUID.
    pub guid: Option<String>,
    /// The keys of its P_Key table.
    pub pkeys: Vec<String>,
}

/// A device file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceFile {
    /// Where it is on this machine.
    pub path: PathBuf,
    /// Whether it is the one for verbs.
    pub verbs: bool,
}

impl Inventory {
    /// Read it from the trees under `root`.
    pub fn read(root: &Root, simulated: bool) -> Result<Self, Error> {
        let devices = infiniband::devices(root)?.into_iter().map(|device| RdmaDevice::read(root, device));
        let rdma_cm = chardev::connection_manager(root)?.map(|file| file.path);
        Ok(Self { simulated, devices: devices.collect::<Result<_, _>>()?, rdma_cm })
    }
}

impl RdmaDevice {
    /// A device of which only the name and the verbs file are known.
    pub fn named(name: &str, uverbs: Option<PathBuf>) -> Self {
        let files = uverbs.into_iter().map(|path| DeviceFile { path, verbs: true }).collect();
        Self { name: name.to_owned(), files, ..Self::default() }
    }

    /// The file through which programs use the device, if it is there.
    pub fn uverbs(&self) -> Option<&Path> {
        self.files.iter().find(|file| file.verbs).map(|file| file.path.as_path())
    }

    fn read(root: &Root, device: infiniband::RdmaDevice) -> Result<Self, Error> {
        let function = match device.pci {
            Some(address) => pci::function(root, address)?,
            None => None,
        };
        let function = function.as_ref();
        Ok(Self {
            name: device.name,
            pci: device.pci.map(|address| address.to_string()),
            id: function.map(|function| format!("{:04x}:{:04x}", function.vendor, function.device)),
            driver: function.and_then(|function| function.driver.clone()),
            numa: function.and_then(|function| function.numa),
            vfs: function.map(|function| (function.vfs, function.total_vfs)).unwrap_or_default(),
            firmware: device.firmware,
            node_guid: device.node_guid.map(|guid| guid.to_string()),
            netdevs: device.netdevs,
            ports: device.ports.into_iter().map(Port::from).collect(),
            files: device.files.into_iter().filter_map(DeviceFile::existing).collect(),
        })
    }
}

impl From<infiniband::Port> for Port {
    fn from(port: infiniband::Port) -> Self {
        Self {
            number: port.number,
            link_layer: port.link_layer.map(|layer| layer.to_string()),
            state: format!("{:?}", port.state),
            rate: port.rate,
            lid: port.lid,
            sm_lid: port.sm_lid,
            guid: port.guid.map(|guid| guid.to_string()),
            pkeys: port.pkeys.iter().map(ToString::to_string).collect(),
        }
    }
}

impl DeviceFile {
    /// sysfs knows of device files that udev has yet to make.
    fn existing(file: CharDevice) -> Option<Self> {
        file.path.exists().then(|| Self { verbs: file.role == Role::Verbs, path: file.path })
    }
}
