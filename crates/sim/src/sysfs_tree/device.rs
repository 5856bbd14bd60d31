//! RDMA devices and the classes of their device files.

use super::{FunctionView, SysfsTree, sysfs_guid};
use crate::Error;
use crate::number_allocator::{DeviceNode, RDMA_CM};
use crate::state::SimRdmaDevice;
use ferroband_kernel::NetnsMode;
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

impl FunctionView<'_> {
    /// Where its RDMA device is, from the top of the tree.
    pub(crate) fn device_path(&self, device: &SimRdmaDevice) -> PathBuf {
        self.sysfs_path().join("infiniband").join(&device.name)
    }
}

impl SysfsTree {
    /// The RDMA device, its ports and what they count; not its interfaces.
    pub(crate) fn write_device(&self, unit: &FunctionView<'_>, device: &SimRdmaDevice) -> Result<(), Error> {
        let place = unit.device_path(device);
        let layer = if unit.hca.link_layer() == LinkLayer::Ethernet { "RoCE" } else { "simulated" };
        self.write_file(place.join("node_type"), "1: CA")?;
        self.write_file(place.join("node_guid"), sysfs_guid(device.node_guid))?;
        // The board's, which virtual functions share with the physical one.
        self.write_file(place.join("sys_image_guid"), sysfs_guid(unit.identity.node_guid(unit.id.adapter)))?;
        self.write_file(place.join("node_desc"), format!("{layer} {}", device.name))?;
        self.write_file(place.join("fw_ver"), &unit.hca.firmware)?;
        self.write_file(place.join("hca_type"), &unit.hca.model)?;
        self.write_file(place.join("board_id"), &unit.hca.board)?;
        self.write_file(place.join("hw_rev"), "0")?;
        for number in 1..=unit.hca.ports.len() {
            self.write_port(unit, device, number)?;
            self.write_counters(unit, device, number)?;
        }
        self.symlink(place.join("device"), &unit.sysfs_path())?;
        self.symlink(Path::new("class/infiniband").join(&device.name), &place)
    }

    /// Takes the RDMA device away.
    pub(crate) fn remove_device(&self, unit: &FunctionView<'_>, device: &SimRdmaDevice) -> Result<(), Error> {
        self.unlink(Path::new("class/infiniband").join(&device.name))?;
        self.remove_directory(unit.device_path(device))?;
        // With the last one goes the directory, which is how readers tell that a function has none.
        let _ = std::fs::remove_dir(self.base.join(unit.sysfs_path()).join("infiniband"));
        Ok(())
    }

    /// The classes of its device files. These do not depend on namespaces.
    pub(crate) fn write_device_files(
        &self,
        unit: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        for (name, class, port, node) in device.char_devices() {
            let place = unit.sysfs_path().join(class).join(&name);
            self.write_file(place.join("dev"), node.dev_number())?;
            self.write_file(place.join("ibdev"), &device.name)?;
            if let Some(port) = port {
                self.write_file(place.join("port"), port)?;
            }
            self.symlink(place.join("device"), &unit.sysfs_path())?;
            self.symlink(Path::new("class").join(class).join(&name), &place)?;
        }
        Ok(())
    }

    /// Takes these classes' entries away.
    pub(crate) fn remove_device_files(
        &self,
        unit: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        for (name, class, ..) in device.char_devices() {
            self.unlink(Path::new("class").join(class).join(&name))?;
            self.remove_directory(unit.sysfs_path().join(class).join(&name))?;
        }
        Ok(())
    }

    /// What the machine has once: the connection manager, and the directories that are there without any
    /// device.
    pub(crate) fn write_machine(&self, mode: NetnsMode) -> Result<(), Error> {
        self.write_file(super::ZERO_FILE, 0)?;
        self.write_netns_mode(mode)?;
        let (name, node) = RDMA_CM;
        let place = Path::new("devices/virtual/misc").join(name);
        self.write_file(place.join("dev"), node.dev_number())?;
        self.symlink(Path::new("class/misc").join(name), &place)?;
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
    /// How RDMA devices and namespaces go together, as the module's parameter shows it: whether they are shared.
    pub(crate) fn write_netns_mode(&self, mode: NetnsMode) -> Result<(), Error> {
        let shared = if mode == NetnsMode::Shared { "Y" } else { "N" };
        self.write_file("module/ib_core/parameters/netns_mode", shared)
    }
}

impl SimRdmaDevice {
    /// Its device files: name, class, port, number.
    pub(crate) fn char_devices(&self) -> Vec<(String, &'static str, Option<usize>, DeviceNode)> {
        let verbs = (format!("uverbs{}", self.verbs.index), "infiniband_verbs", None, self.verbs);
        let managed = self.managed.iter().flat_map(|(port, umad, issm)| {
            [("umad", umad), ("issm", issm)]
                .map(|(word, node)| (format!("{word}{}", node.index), "infiniband_mad", Some(*port), *node))
        });
        std::iter::once(verbs).chain(managed).collect()
    }
}
