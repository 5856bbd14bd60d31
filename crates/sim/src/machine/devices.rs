//! What a driver makes of a function: an RDMA device, its device files and its interfaces.

use super::SimMachine;
use crate::number_allocator::NumberAllocator;
use crate::state::{FunctionId, SimRdmaDevice};
use crate::sysfs_tree::{FunctionView, SysfsTree};
use crate::{Error, files};
use ferroband_kernel::NetnsId;
use ferroband_model::LinkLayer;

impl SimMachine {
    /// Makes the device of a function, with everything that belongs to it.
    pub(super) fn make_device(&mut self, which: FunctionId) -> Result<(), Error> {
        self.state.serial += 1;
        let device = self.new_device(which)?;
        if let Some(function) = self.state.function_mut(which) {
            function.device = Some(device);
        }
        self.write_device(which)?;
        self.push_device_events("add", which)?;
        self.make_interfaces(which)
    }

    /// Takes the device of a function away, wherever it is.
    pub(super) fn remove_device(&mut self, which: FunctionId) -> Result<(), Error> {
        if self.state.device(which).is_none() {
            return Ok(());
        }
        self.remove_interfaces(which)?;
        self.push_device_events("remove", which)?;
        let unit = self.function_view(which)?;
        if let Some(device) = self.state.device(which) {
            self.remove_from_tree(&unit, device)?;
            self.tree().remove_device_files(&unit, device)?;
            for (name, ..) in device.char_devices() {
                files::remove_file(&self.root.dev("infiniband").join(name))?;
            }
        }
        if let Some(function) = self.state.function_mut(which) {
            function.device = None;
        }
        self.remove_unused_netns_dirs()
    }

    /// The device as the driver finds it: with the GUIDs that its function has by now.
    fn new_device(&self, which: FunctionId) -> Result<SimRdmaDevice, Error> {
        let unit = self.function_view(which)?;
        let mut numbers = NumberAllocator::from_state(&self.state);
        let ports = 1..=unit.hca.ports.len();
        let adapter = which.adapter;
        let (node_guid, port_guids) = match (unit.vf, which.vf) {
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
            None => numbers.allocate_name(&unit.hca.rdma),
            // An adapter's own number is kept for it.
            Some(_) => {
                for hca in &self.profile.hcas {
                    numbers.reserve_name(&hca.rdma);
                }
                numbers.allocate_name(&unit.hca.rdma)
            }
        };
        let verbs = numbers.allocate_uverbs();
        let infiniband = ports.clone().filter(|_| unit.hca.link_layer() == LinkLayer::InfiniBand);
        let managed = infiniband
            .map(|port| {
                let (umad, issm) = numbers.allocate_mad_nodes(which.vf.is_none());
                (port, umad, issm)
            })
            .collect();
        Ok(SimRdmaDevice {
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
    pub(super) fn write_device(&self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let tree = self.tree();
        for (name, class, _, node) in device.char_devices() {
            // rdma-core's udev rules.
            let mode = if class == "infiniband_verbs" { 0o666 } else { 0o600 };
            node.create(&self.root.dev("infiniband").join(name), mode)?;
        }
        tree.write_device_files(&unit, device)?;
        if let Some(netns) = device.netns {
            self.write_netns_tree(&unit, device, netns)?;
        }
        self.tree_for(device).write_device(&unit, device)?;
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                tree.write_netdev(&unit, device, position + 1, name)?;
            }
        }
        Ok(())
    }

    fn push_device_events(&mut self, action: &str, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let mut told = vec![("infiniband", unit.device_path(device))];
        told.extend(
            device
                .char_devices()
                .into_iter()
                .map(|(name, class, ..)| (class, unit.sysfs_path().join(class).join(name))),
        );
        if action == "remove" {
            told.reverse();
        }
        for (subsystem, place) in told {
            self.push_event(action, subsystem, &place);
        }
        Ok(())
    }

    /// Takes a device out of the tree in which it is seen.
    pub(super) fn remove_from_tree(
        &self,
        unit: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        let tree = self.tree_for(device);
        tree.remove_device(unit, device)?;
        if device.netns.is_some() {
            tree.remove_device_files(unit, device)?;
            tree.remove_function(unit)?;
        }
        Ok(())
    }

    /// Writes what a function in another namespace is there.
    fn write_netns_tree(
        &self,
        unit: &FunctionView<'_>,
        device: &SimRdmaDevice,
        netns: NetnsId,
    ) -> Result<(), Error> {
        let space = self.netns_dir(netns);
        let tree = SysfsTree::at(space.join("sys"));
        tree.write_function(unit)?;
        tree.write_device_files(unit, device)?;
        let dev = space.join("dev");
        if !dev.is_symlink() {
            std::os::unix::fs::symlink("../../dev", &dev)
                .map_err(|source| files::file_error("link", &dev, source))?;
        }
        Ok(())
    }
}
