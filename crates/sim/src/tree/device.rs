//! RDMA devices and the classes of their device files.

use super::{Tree, Unit, grouped};
use crate::Error;
use crate::numbers::{CONNECTION_MANAGER, Node};
use crate::state::Device;
use ferroband_kernel::NetnsMode;
use ferroband_model::LinkLayer;
use std::path::{Path, PathBuf};

impl Unit<'_> {
    /// Where its RDMA device is, from the top of the tree.
    pub(crate) fn device_place(&self, device: &Device) -> PathBuf {
        self.place().join("infiniband").join(&device.name)
    }
}

impl Tree {
    /// The RDMA device, its ports and what they count; not its interfaces.
    pub(crate) fn device(&self, unit: &Unit<'_>, device: &Device) -> Result<(), Error> {
        let place = unit.device_place(device);
        let layer = if unit.hca.link_layer() == LinkLayer::Ethernet { "RoCE" } else { "simulated" };
        self.file(place.join("node_type"), "1: CA")?;
        self.file(place.join("node_guid"), grouped(device.node_guid))?;
        // The board's, which virtual functions share with the physical one.
        self.file(place.join("sys_image_guid"), grouped(unit.identity.node_guid(unit.which.adapter)))?;
        self.file(place.join("node_desc"), format!("{layer} {}", device.name))?;
        self.file(place.join("fw_ver"), &unit.hca.firmware)?;
        self.file(place.join("hca_type"), &unit.hca.model)?;
        self.file(place.join("board_id"), &unit.hca.board)?;
        self.file(place.join("hw_rev"), "0")?;
        for number in 1..=unit.hca.ports.len() {
            self.port(unit, device, number)?;
            self.counters(unit, device, number)?;
        }
        self.link(place.join("device"), &unit.place())?;
        self.link(Path::new("class/infiniband").join(&device.name), &place)
    }

    /// Takes the RDMA device away.
    pub(crate) fn remove_device(&self, unit: &Unit<'_>, device: &Device) -> Result<(), Error> {
        self.unlink(Path::new("class/infiniband").join(&device.name))?;
        self.remove(unit.device_place(device))?;
        // With the last one goes the directory, which is how readers tell that a function has none.
        let _ = std::fs::remove_dir(self.base.join(unit.place()).join("infiniband"));
        Ok(())
    }

    /// The classes of its device files. These do not depend on namespaces.
    pub(crate) fn files(&self, unit: &Unit<'_>, device: &Device) -> Result<(), Error> {
        for (name, class, port, node) in device.files() {
            let place = unit.place().join(class).join(&name);
            self.file(place.join("dev"), node.number())?;
            self.file(place.join("ibdev"), &device.name)?;
            if let Some(port) = port {
                self.file(place.join("port"), port)?;
            }
            self.link(place.join("device"), &unit.place())?;
            self.link(Path::new("class").join(class).join(&name), &place)?;
        }
        Ok(())
    }

    /// Takes these classes' entries away.
    pub(crate) fn remove_files(&self, unit: &Unit<'_>, device: &Device) -> Result<(), Error> {
        for (name, class, ..) in device.files() {
            self.unlink(Path::new("class").join(class).join(&name))?;
            self.remove(unit.place().join(class).join(&name))?;
        }
        Ok(())
    }

    /// What the machine has once: the connection manager, and the directories that are there without any
    /// device.
    pub(crate) fn machine(&self, mode: NetnsMode) -> Result<(), Error> {
        self.file(super::ZERO, 0)?;
        self.mode(mode)?;
        let (name, node) = CONNECTION_MANAGER;
        let place = Path::new("devices/virtual/misc").join(name);
        self.file(place.join("dev"), node.number())?;
        self.link(Path::new("class/misc").join(name), &place)?;
        self.file("class/infiniband_verbs/abi_version", 6)?;
        self.file("class/infiniband_mad/abi_version", 5)?;
        self.file("bus/pci/drivers_probe", "")?;
        for directory in ["class/infiniband", "class/net", "bus/pci/devices"] {
            crate::files::directory(&self.base.join(directory))?;
        }
        Ok(())
    }
}

impl Tree {
    /// How RDMA devices and namespaces go together, as the module's parameter shows it: whether they are shared.
    pub(crate) fn mode(&self, mode: NetnsMode) -> Result<(), Error> {
        let shared = if mode == NetnsMode::Shared { "Y" } else { "N" };
        self.file("module/ib_core/parameters/netns_mode", shared)
    }
}

impl Device {
    /// Its device files: name, class, port, number.
    pub(crate) fn files(&self) -> Vec<(String, &'static str, Option<usize>, Node)> {
        let verbs = (format!("uverbs{}", self.verbs.index), "infiniband_verbs", None, self.verbs);
        let managed = self.managed.iter().flat_map(|(port, umad, issm)| {
            [("umad", umad), ("issm", issm)]
                .map(|(word, node)| (format!("{word}{}", node.index), "infiniband_mad", Some(*port), *node))
        });
        std::iter::once(verbs).chain(managed).collect()
    }
}
