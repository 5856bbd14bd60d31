//! RDMA devices and the classes of their character devices.

use super::{FunctionView, SysfsTree, sysfs_guid};
use crate::Error;
use crate::number_allocator::{DeviceNode, RDMA_CM};
use crate::state::SimRdmaDevice;
use ferroband_kernel::NetnsMode;
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

impl FunctionView<'_> {
    /// Path of the function's RDMA device below the base directory of the sysfs tree.
    pub(crate) fn device_path(&self, device: &SimRdmaDevice) -> PathBuf {
        self.sysfs_path().join("infiniband").join(&device.name)
    }
}

impl SysfsTree {
    /// Writes the RDMA device with its ports and counters, without its interfaces.
    pub(crate) fn write_device(&self, view: &FunctionView<'_>, device: &SimRdmaDevice) -> Result<(), Error> {
        let path = view.device_path(device);
        let layer = if view.hca.link_layer() == LinkLayer::Ethernet { "RoCE" } else { "simulated" };
        self.write_file(path.join("node_type"), "1: CA")?;
        self.write_file(path.join("node_guid"), sysfs_guid(device.node_guid))?;
        // The GUID of the board, which is the same for the physical and virtual functions.
        self.write_file(path.join("sys_image_guid"), sysfs_guid(view.identity.node_guid(view.id.adapter)))?;
        self.write_file(path.join("node_desc"), format!("{layer} {}", device.name))?;
        self.write_file(path.join("fw_ver"), &view.hca.firmware)?;
        self.write_file(path.join("hca_type"), &view.hca.model)?;
        self.write_file(path.join("board_id"), &view.hca.board)?;
        self.write_file(path.join("hw_rev"), "0")?;
        for number in 1..=view.hca.ports.len() {
            self.write_port(view, device, number)?;
            self.write_counters(view, device, number)?;
        }
        self.symlink(path.join("device"), &view.sysfs_path())?;
        self.symlink(Path::new("class/infiniband").join(&device.name), &path)
    }

    /// Removes the RDMA device, starting with its class link.
    pub(crate) fn remove_device(&self, view: &FunctionView<'_>, device: &SimRdmaDevice) -> Result<(), Error> {
        self.unlink(Path::new("class/infiniband").join(&device.name))?;
        self.remove_directory(view.device_path(device))?;
        // Remove the directory `infiniband` with the last RDMA device, so that readers see a function without
        // an RDMA device.
        let _ = std::fs::remove_dir(self.base.join(view.sysfs_path()).join("infiniband"));
        Ok(())
    }

    /// Writes the class entries of the device's character devices. They are the same in every namespace.
    pub(crate) fn write_device_files(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        for (name, class, port, node) in device.char_devices() {
            let path = view.sysfs_path().join(class).join(&name);
            self.write_file(path.join("dev"), node.dev_number())?;
            self.write_file(path.join("ibdev"), &device.name)?;
            if let Some(port) = port {
                self.write_file(path.join("port"), port)?;
            }
            self.symlink(path.join("device"), &view.sysfs_path())?;
            self.symlink(Path::new("class").join(class).join(&name), &path)?;
        }
        Ok(())
    }

    /// Removes the class entries of the device's character devices.
    pub(crate) fn remove_device_files(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        for (name, class, ..) in device.char_devices() {
            self.unlink(Path::new("class").join(class).join(&name))?;
            self.remove_directory(view.sysfs_path().join(class).join(&name))?;
        }
        Ok(())
    }

    /// Writes the entries that exist on a host without adapters: the netns mode, the RDMA connection manager
    /// and the class directories.
    pub(crate) fn write_machine(&self, mode: NetnsMode) -> Result<(), Error> {
        self.write_file(super::ZERO_FILE, 0)?;
        self.write_netns_mode(mode)?;
        let (name, node) = RDMA_CM;
        let path = Path::new("devices/virtual/misc").join(name);
        self.write_file(path.join("dev"), node.dev_number())?;
        self.symlink(Path::new("class/misc").join(name), &path)?;
        self.write_file("class/infiniband_verbs/abi_version", 6)?;
        self.write_file("class/infiniband_mad/abi_version", 5)?;
        self.write_file("bus/pci/drivers_probe", "")?;
        for directory in ["class/infiniband", "class/net", "bus/pci/devices"] {
            crate::files::create_directory(&self.base.join(directory))?;
        }
        Ok(())
    }
}

impl SysfsTree {
    /// Writes the RDMA network namespace mode as the parameter `netns_mode` of ib_core shows it: `Y` if
    /// shared, `N` if exclusive.
    pub(crate) fn write_netns_mode(&self, mode: NetnsMode) -> Result<(), Error> {
        let shared = if mode == NetnsMode::Shared { "Y" } else { "N" };
        self.write_file("module/ib_core/parameters/netns_mode", shared)
    }
}

impl SimRdmaDevice {
    /// Character devices of the RDMA device, each as (name, class, port, node). uverbs devices have no port.
    pub(crate) fn char_devices(&self) -> Vec<(String, &'static str, Option<usize>, DeviceNode)> {
        let verbs = (format!("uverbs{}", self.verbs.index), "infiniband_verbs", None, self.verbs);
        let managed = self.managed.iter().flat_map(|(port, umad, issm)| {
            [("umad", umad), ("issm", issm)]
                .map(|(word, node)| (format!("{word}{}", node.index), "infiniband_mad", Some(*port), *node))
        });
        std::iter::once(verbs).chain(managed).collect()
    }
}
