//! RDMA devices, their character devices and interfaces: the objects that a driver creates.

use super::SimMachine;
use crate::number_allocator::NumberAllocator;
use crate::state::{FunctionId, SimRdmaDevice};
use crate::sysfs_tree::{FunctionView, SysfsTree};
use crate::{Error, files};
use ferroband_kernel::NetnsId;
use ferroband_model::LinkLayer;

impl SimMachine {
    /// Creates the RDMA device of a function, with its character devices and interfaces.
    pub(super) fn make_device(&mut self, id: FunctionId) -> Result<(), Error> {
        self.state.serial += 1;
        let device = self.new_device(id)?;
        if let Some(function) = self.state.function_mut(id) {
            function.device = Some(device);
        }
        self.write_device(id)?;
        self.push_device_events("add", id)?;
        self.make_interfaces(id)
    }

    /// Removes the RDMA device of a function, with its character devices and interfaces. Succeeds if there is
    /// none.
    pub(super) fn remove_device(&mut self, id: FunctionId) -> Result<(), Error> {
        if self.state.device(id).is_none() {
            return Ok(());
        }
        self.remove_interfaces(id)?;
        self.push_device_events("remove", id)?;
        let view = self.function_view(id)?;
        if let Some(device) = self.state.device(id) {
            self.remove_from_tree(&view, device)?;
            self.tree().remove_device_files(&view, device)?;
            for (name, ..) in device.char_devices() {
                files::remove_file(&self.root.dev("infiniband").join(name))?;
            }
        }
        if let Some(function) = self.state.function_mut(id) {
            function.device = None;
        }
        self.remove_unused_netns_dirs()
    }

    /// Builds the RDMA device of a function, with the function's current GUIDs and new device numbers.
    fn new_device(&self, id: FunctionId) -> Result<SimRdmaDevice, Error> {
        let view = self.function_view(id)?;
        let mut numbers = NumberAllocator::from_state(&self.state);
        let ports = 1..=view.hca.ports.len();
        let adapter = id.adapter;
        let (node_guid, port_guids) = match (view.vf, id.vf) {
            (Some(_), Some(vf)) if view.hca.link_layer() == LinkLayer::Ethernet => {
                let guid = self.identity.vf_guid(adapter, vf);
                (guid, ports.clone().map(|_| guid).collect())
            }
            (Some(vf_state), _) => (vf_state.node_guid, ports.clone().map(|_| vf_state.port_guid).collect()),
            (None, _) => {
                let guids = ports.clone().map(|port| self.identity.port_guid(adapter, port));
                (self.identity.node_guid(adapter), guids.collect())
            }
        };
        let name = match id.vf {
            None => numbers.allocate_name(&view.hca.rdma),
            // A virtual function never takes the device name of an adapter, even if that adapter is
            // unplugged.
            Some(_) => {
                for hca in &self.profile.hcas {
                    numbers.reserve_name(&hca.rdma);
                }
                numbers.allocate_name(&view.hca.rdma)
            }
        };
        let verbs = numbers.allocate_uverbs();
        let infiniband = ports.clone().filter(|_| view.hca.link_layer() == LinkLayer::InfiniBand);
        let managed = infiniband
            .map(|port| {
                let (umad, issm) = numbers.allocate_mad_nodes(id.vf.is_none());
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

    /// Writes an RDMA device with its character devices and interfaces into the simulated sysfs and /dev
    /// trees.
    pub(super) fn write_device(&self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let Some(device) = self.state.device(id) else { return Ok(()) };
        let tree = self.tree();
        for (name, class, _, node) in device.char_devices() {
            // rdma-core's udev rules set these modes.
            let mode = if class == "infiniband_verbs" { 0o666 } else { 0o600 };
            node.create(&self.root.dev("infiniband").join(name), mode)?;
        }
        tree.write_device_files(&view, device)?;
        if let Some(netns) = device.netns {
            self.write_netns_tree(&view, device, netns)?;
        }
        self.tree_for(device).write_device(&view, device)?;
        tree.write_netdevs(&view, device)
    }

    fn push_device_events(&mut self, action: &str, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let Some(device) = self.state.device(id) else { return Ok(()) };
        let mut events = vec![("infiniband", view.device_path(device))];
        events.extend(
            device
                .char_devices()
                .into_iter()
                .map(|(name, class, ..)| (class, view.sysfs_path().join(class).join(name))),
        );
        if action == "remove" {
            events.reverse();
        }
        for (subsystem, path) in events {
            self.push_event(action, subsystem, &path);
        }
        Ok(())
    }

    /// Removes an RDMA device from the sysfs tree of the network namespace that contains it.
    pub(super) fn remove_from_tree(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
    ) -> Result<(), Error> {
        let tree = self.tree_for(device);
        tree.remove_device(view, device)?;
        if device.netns.is_some() {
            tree.remove_device_files(view, device)?;
            tree.remove_function(view)?;
        }
        Ok(())
    }

    /// Writes a PCI function and the character devices of its RDMA device to the sysfs tree of network
    /// namespace `netns`.
    fn write_netns_tree(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
        netns: NetnsId,
    ) -> Result<(), Error> {
        let netns_dir = self.netns_dir(netns);
        let tree = SysfsTree::at(netns_dir.join("sys"));
        tree.write_function(view)?;
        tree.write_device_files(view, device)?;
        let dev = netns_dir.join("dev");
        if !dev.is_symlink() {
            std::os::unix::fs::symlink("../../dev", &dev)
                .map_err(|source| files::file_error("create symlink", &dev, source))?;
        }
        Ok(())
    }
}
