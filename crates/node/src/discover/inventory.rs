//! What this node has, in a form that can be shown, compared and sent.

use super::{
    DiscoveryRoots, InventoryFunction,
    sysfs::{read_text, sorted_names},
};
use ferroband_kernel::{
    Error, Root,
    sysfs::{
        chardev::{CharDevice, CharDeviceRole},
        infiniband, pci,
    },
};
use serde::Serialize;
use std::{
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// The RDMA devices of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Whether the hardware is simulated.
    pub simulated: bool,
    /// The devices, by name.
    pub devices: Vec<InventoryRdmaDevice>,
    /// The connection manager's device file, one for the whole node.
    pub rdma_cm: Option<PathBuf>,
    /// The functions on the PCI bus that matter to pods, by address.
    pub functions: Vec<InventoryFunction>,
    /// Every file for verbs in the folder of device files, known to sysfs or not.
    pub verbs: Vec<PathBuf>,
    /// The device file of KNEM, which MPI libraries use between processes of a node.
    pub knem: Option<PathBuf>,
    /// Whether an RDMA device belongs to one network namespace; nothing when the kernel does not tell.
    pub exclusive: Option<bool>,
}

/// An RDMA device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryRdmaDevice {
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
    pub ports: Vec<InventoryPort>,
    /// Its device files that exist.
    pub files: Vec<DeviceFile>,
}

/// A port of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryPort {
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
    /// What it is for.
    pub role: DeviceFileRole,
}

/// What a device file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceFileRole {
    /// Verbs: `uverbs0`.
    Verbs,
    /// Management datagrams: `umad0`. Who has it can rewrite the fabric.
    Management,
    /// Announcing a subnet manager: `issm0`.
    SubnetManager,
}

impl Inventory {
    /// Read it from the trees under `root`.
    pub fn read(root: &Root, simulated: bool) -> Result<Self, Error> {
        Self::read_from(&DiscoveryRoots { root: root.clone(), simulated, device_dir: root.dev("infiniband") })
    }

    /// Read it where `sight` says.
    pub(super) fn read_from(sight: &DiscoveryRoots) -> Result<Self, Error> {
        let root = &sight.root;
        let devices =
            infiniband::devices(root)?.into_iter().map(|device| InventoryRdmaDevice::read(sight, device));
        let verbs = sorted_names(&sight.device_dir).into_iter().filter(|name| name.starts_with("uverbs"));
        let knem = root.dev("knem");
        let is_device = knem.metadata().is_ok_and(|file| file.file_type().is_char_device());
        Ok(Self {
            simulated: sight.simulated,
            devices: devices.collect::<Result<_, _>>()?,
            rdma_cm: Some(sight.device_dir.join("rdma_cm")).filter(|path| path.exists()),
            functions: InventoryFunction::list(root)?,
            verbs: verbs.map(|name| sight.device_dir.join(name)).collect(),
            // A runtime that mounts what is not there makes a folder of that name.
            knem: is_device.then_some(knem),
            // The parameter shows the mode in force: `rdma system set netns` writes the same variable.
            exclusive: read_text(&root.sys("module/ib_core/parameters/netns_mode"))
                .map(|shared| shared == "N"),
        })
    }

    /// The function at `pci`.
    pub fn function(&self, pci: &str) -> Option<&InventoryFunction> {
        let at = self.functions.binary_search_by(|function| function.pci.as_str().cmp(pci));
        match at {
            Ok(at) => self.functions.get(at),
            // Domains of five digits sort elsewhere.
            Err(_) => self.functions.iter().find(|function| function.pci == pci),
        }
    }

    /// The RDMA devices of the function at `pci`.
    pub fn rdma_devices_of<'a>(&'a self, pci: &'a str) -> impl Iterator<Item = &'a InventoryRdmaDevice> {
        self.devices.iter().filter(move |device| device.pci.as_deref() == Some(pci))
    }
}

impl InventoryRdmaDevice {
    /// A device of which only the name and the verbs file are known.
    pub fn named(name: &str, uverbs: Option<PathBuf>) -> Self {
        let files = uverbs.into_iter().map(|path| DeviceFile { path, role: DeviceFileRole::Verbs }).collect();
        Self { name: name.to_owned(), files, ..Self::default() }
    }

    /// The file through which programs use the device, if it is there.
    pub fn uverbs(&self) -> Option<&Path> {
        self.files.iter().find(|file| file.role == DeviceFileRole::Verbs).map(|file| file.path.as_path())
    }

    fn read(sight: &DiscoveryRoots, device: infiniband::SysfsRdmaDevice) -> Result<Self, Error> {
        let root = &sight.root;
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
            ports: device.ports.into_iter().map(InventoryPort::from).collect(),
            files: device
                .files
                .into_iter()
                .filter_map(|file| DeviceFile::existing(&sight.device_dir, &file))
                .collect(),
        })
    }
}

impl From<infiniband::SysfsPort> for InventoryPort {
    fn from(port: infiniband::SysfsPort) -> Self {
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
    fn existing(folder: &Path, file: &CharDevice) -> Option<Self> {
        let role = match file.role {
            CharDeviceRole::Verbs => DeviceFileRole::Verbs,
            CharDeviceRole::Management { .. } => DeviceFileRole::Management,
            CharDeviceRole::SubnetManager { .. } => DeviceFileRole::SubnetManager,
            CharDeviceRole::ConnectionManager => return None,
        };
        let path = folder.join(&file.name);
        path.exists().then_some(Self { path, role })
    }
}
