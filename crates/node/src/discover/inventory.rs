//! The hardware inventory of this node. It can be compared with an earlier one and printed as JSON.

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

/// RDMA devices and PCI functions of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    pub simulated: bool,
    /// RDMA devices, sorted by name.
    pub devices: Vec<InventoryRdmaDevice>,
    /// Device file of the RDMA connection manager, of which a node has one; `None` if it does not exist.
    pub rdma_cm: Option<PathBuf>,
    /// PCI functions of network controllers, accelerators and GPUs, sorted by address.
    pub functions: Vec<InventoryFunction>,
    /// All uverbs device files, including those that sysfs does not list.
    pub verbs: Vec<PathBuf>,
    /// Device file of KNEM, with which MPI libraries copy memory between processes on a node; `None` if it does not
    /// exist.
    pub knem: Option<PathBuf>,
    /// Whether RDMA devices belong to one network namespace each (exclusive mode); `None` if the kernel does not
    /// report the mode.
    pub exclusive: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryRdmaDevice {
    /// Kernel name, for example `mlx5_0`.
    pub name: String,
    /// PCI address; `None` for software devices such as rxe.
    pub pci: Option<String>,
    /// PCI vendor and device id, for example `15b3:1017`.
    pub id: Option<String>,
    pub driver: Option<String>,
    pub numa: Option<u32>,
    /// Current and maximum number of virtual functions.
    pub vfs: (u16, u16),
    /// Firmware version, as the driver reports it.
    pub firmware: Option<String>,
    pub node_guid: Option<String>,
    /// Interfaces of the device that are in the host network namespace.
    pub netdevs: Vec<String>,
    pub ports: Vec<InventoryPort>,
    /// Device files that exist in `/dev/infiniband`.
    pub files: Vec<DeviceFile>,
    /// Why the device cannot be read; `None` if it can. Its devices are unhealthy.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InventoryPort {
    /// Port number, from 1.
    pub number: u32,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Port state, for example `Active` or `Down`.
    pub state: String,
    /// Rate as the kernel prints it, for example `100 Gb/sec (4X EDR)`.
    pub rate: Option<String>,
    /// Local identifier (LID), assigned by the subnet manager.
    pub lid: Option<u16>,
    /// LID of the subnet manager.
    pub sm_lid: Option<u16>,
    pub guid: Option<String>,
    /// Keys in the P_Key table, in hexadecimal.
    pub pkeys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceFile {
    pub path: PathBuf,
    pub role: DeviceFileRole,
}

/// Purpose of an RDMA device file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceFileRole {
    /// Access to RDMA verbs, for example `uverbs0`.
    Verbs,
    /// Access to management datagrams, for example `umad0`. A process with this file can reconfigure the
    /// fabric.
    Management,
    /// Announces a subnet manager on the port while it is open, for example `issm0`.
    SubnetManager,
}

impl Inventory {
    /// Reads the inventory from sysfs, procfs and the device files under `root`.
    pub fn read(root: &Root, simulated: bool) -> Result<Self, Error> {
        Self::read_from(&DiscoveryRoots { root: root.clone(), simulated, device_dir: root.dev("infiniband") })
    }

    pub(super) fn read_from(roots: &DiscoveryRoots) -> Result<Self, Error> {
        let root = &roots.root;
        let devices =
            infiniband::devices(root)?.into_iter().map(|device| InventoryRdmaDevice::read(roots, device));
        let verbs = sorted_names(&roots.device_dir).into_iter().filter(|name| name.starts_with("uverbs"));
        let knem = root.dev("knem");
        let is_device = knem.metadata().is_ok_and(|file| file.file_type().is_char_device());
        Ok(Self {
            simulated: roots.simulated,
            devices: devices.collect::<Result<_, _>>()?,
            rdma_cm: Some(roots.device_dir.join("rdma_cm")).filter(|path| path.exists()),
            functions: InventoryFunction::list(root)?,
            verbs: verbs.map(|name| roots.device_dir.join(name)).collect(),
            // A container runtime that mounts a missing file creates a directory, so `/dev/knem` must be a
            // character device.
            knem: is_device.then_some(knem),
            // The module parameter shows the current mode, because `rdma system set netns` changes the same
            // variable.
            exclusive: read_text(&root.sys("module/ib_core/parameters/netns_mode"))
                .map(|shared| shared == "N"),
        })
    }

    pub fn function(&self, pci: &str) -> Option<&InventoryFunction> {
        let position = self.functions.binary_search_by(|function| function.pci.as_str().cmp(pci));
        match position {
            Ok(position) => self.functions.get(position),
            // The binary search may miss a function, because PCI domains with five digits break the string
            // order.
            Err(_) => self.functions.iter().find(|function| function.pci == pci),
        }
    }

    /// Names of the interfaces on which IPoIB children are created: those of InfiniBand ports of physical functions. A
    /// virtual function is given to one pod.
    pub fn ipoib_parents(&self) -> impl Iterator<Item = &str> {
        let is_vf = |device: &InventoryRdmaDevice| {
            device.pci.as_deref().and_then(|pci| self.function(pci)).is_some_and(|f| f.pf.is_some())
        };
        let is_infiniband = |device: &InventoryRdmaDevice| {
            device.ports.iter().any(|port| port.link_layer.as_deref() == Some("InfiniBand"))
        };
        let parents = self.devices.iter().filter(move |device| is_infiniband(device) && !is_vf(device));
        parents.flat_map(|device| device.netdevs.iter().map(String::as_str))
    }

    pub fn rdma_devices_of<'a>(&'a self, pci: &'a str) -> impl Iterator<Item = &'a InventoryRdmaDevice> {
        self.devices.iter().filter(move |device| device.pci.as_deref() == Some(pci))
    }
}

impl InventoryRdmaDevice {
    /// Creates a device with only a name and an optional uverbs file.
    pub fn named(name: &str, uverbs: Option<PathBuf>) -> Self {
        let files = uverbs.into_iter().map(|path| DeviceFile { path, role: DeviceFileRole::Verbs }).collect();
        Self { name: name.to_owned(), files, ..Self::default() }
    }

    /// Returns the path of the uverbs file; `None` if it does not exist.
    pub fn uverbs(&self) -> Option<&Path> {
        self.files.iter().find(|file| file.role == DeviceFileRole::Verbs).map(|file| file.path.as_path())
    }

    fn read(roots: &DiscoveryRoots, device: infiniband::SysfsRdmaDevice) -> Result<Self, Error> {
        let root = &roots.root;
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
                .filter_map(|file| DeviceFile::existing(&roots.device_dir, &file))
                .collect(),
            error: device.error,
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
    /// Returns the device file if it exists in `dir`. It may not exist yet, because sysfs lists a file before
    /// udev creates it.
    fn existing(dir: &Path, file: &CharDevice) -> Option<Self> {
        let role = match file.role {
            CharDeviceRole::Verbs => DeviceFileRole::Verbs,
            CharDeviceRole::Management { .. } => DeviceFileRole::Management,
            CharDeviceRole::SubnetManager { .. } => DeviceFileRole::SubnetManager,
        };
        let path = dir.join(&file.name);
        path.exists().then_some(Self { path, role })
    }
}
