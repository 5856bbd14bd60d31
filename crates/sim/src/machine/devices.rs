//! What a driver makes of a function: an RDMA device, its device files and its interfaces.

use super::Machine;
use crate::numbers::Numbers;
use crate::state::{Device, Which};
use crate::tree::{Tree, Unit};
use crate::{Error, files};
use ferroband_kernel::NetnsId;
use ferroband_model::LinkLayer;

impl Machine {
    /// Makes the device of a function, with everything that belongs to it.
    pub(super) fn make_device(&mut self, which: Which) -> Result<(), Error> {
        self.state.serial += 1;
        let device = self.new_device(which)?;
        if let Some(function) = self.state.function_mut(which) {
            function.device = Some(device);
        }
        self.write_device(which)?;
        self.tell_device("add", which)?;
        self.make_interfaces(which)
    }

    /// Takes the device of a function away, wherever it is.
    pub(super) fn remove_device(&mut self, which: Which) -> Result<(), Error> {
        if self.state.device(which).is_none() {
            return Ok(());
        }
        self.remove_interfaces(which)?;
        self.tell_device("remove", which)?;
        let unit = self.unit(which)?;
        if let Some(device) = self.state.device(which) {
            self.hide(&unit, device)?;
            self.tree().remove_files(&unit, device)?;
            for (name, ..) in device.files() {
                files::remove_file(&self.root.dev("infiniband").join(name))?;
            }
        }
        if let Some(function) = self.state.function_mut(which) {
            function.device = None;
        }
        self.drop_empty_spaces()
    }

    /// The device as the driver finds it: with the GUIDs that its function has by now.
    fn new_device(&self, which: Which) -> Result<Device, Error> {
        let unit = self.unit(which)?;
        let mut numbers = Numbers::of(&self.state);
        let ports = 1..=unit.hca.ports.len();
        let adapter = which.adapter;
        let (node_guid, port_guids) = match (unit.virtual_, which.vf) {
            (Some(_), Some(vf)) if unit.hca.link_layer() == LinkLayer::Ethernet => {
                let guid = self.identity.vf_guid(adapter, vf);
                (guid, ports.clone().map(|_| guid).collect())
            }
            (Some(virtual_), _) => (virtual_.node_guid, ports.clone().map(|_| virtual_.port_guid).collect()),
            (None, _) => {
                let guids = ports.clone().map(|port| self.identity.port_guid(adapter, port));
                (self.identity.node_guid(adapter), guids.collect())
            }
        };
        let name = match which.vf {
            None => numbers.name(&unit.hca.rdma),
            // An adapter's own number is kept for it.
            Some(_) => {
                for hca in &self.profile.hcas {
                    numbers.keep(&hca.rdma);
                }
                numbers.name(&unit.hca.rdma)
            }
        };
        let verbs = numbers.verbs();
        let infiniband = ports.clone().filter(|_| unit.hca.link_layer() == LinkLayer::InfiniBand);
        let managed = infiniband
            .map(|port| {
                let (umad, issm) = numbers.managed(which.vf.is_none());
                (port, umad, issm)
            })
            .collect();
        Ok(Device {
            index: self.state.serial - 1,
            name,
            node_guid,
            port_guids,
            queue_pair: 0x47 + self.state.serial,
            verbs,
            managed,
            netns: None,
            netdevs: ports.clone().map(|_| None).collect(),
            counters: ports.clone().map(|_| Default::default()).collect(),
            traffic: ports.map(|_| Default::default()).collect(),
        })
    }

    /// Writes a device with its files and interfaces into the trees, as the state has it.
    pub(super) fn write_device(&self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let tree = self.tree();
        for (name, class, _, node) in device.files() {
            // rdma-core's udev rules.
            let mode = if class == "infiniband_verbs" { 0o666 } else { 0o600 };
            node.make(&self.root.dev("infiniband").join(name), mode)?;
        }
        tree.files(&unit, device)?;
        if let Some(netns) = device.netns {
            self.write_space(&unit, device, netns)?;
        }
        self.tree_of(device).device(&unit, device)?;
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                tree.netdev(&unit, device, position + 1, name)?;
            }
        }
        Ok(())
    }

    fn tell_device(&mut self, action: &str, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let mut told = vec![("infiniband", unit.device_place(device))];
        told.extend(
            device.files().into_iter().map(|(name, class, ..)| (class, unit.place().join(class).join(name))),
        );
        if action == "remove" {
            told.reverse();
        }
        for (subsystem, place) in told {
            self.tell(action, subsystem, &place);
        }
        Ok(())
    }

    /// Takes a device out of the tree in which it is seen.
    pub(super) fn hide(&self, unit: &Unit<'_>, device: &Device) -> Result<(), Error> {
        let tree = self.tree_of(device);
        tree.remove_device(unit, device)?;
        if device.netns.is_some() {
            tree.remove_files(unit, device)?;
            tree.remove_function(unit)?;
        }
        Ok(())
    }

    /// Writes what a function in another namespace is there.
    fn write_space(&self, unit: &Unit<'_>, device: &Device, netns: NetnsId) -> Result<(), Error> {
        let space = self.space(netns);
        let tree = Tree::at(space.join("sys"));
        tree.function(unit)?;
        tree.files(unit, device)?;
        let dev = space.join("dev");
        if !dev.is_symlink() {
            std::os::unix::fs::symlink("../../dev", &dev)
                .map_err(|source| files::error("link", &dev, source))?;
        }
        Ok(())
    }
}
