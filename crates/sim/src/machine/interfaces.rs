//! Interfaces of functions: taps for adapters, veth pairs for virtual functions, and their entries in the
//! sysfs tree.

use super::SimMachine;
use crate::partition::SimPartition;
use crate::state::FunctionId;
use crate::vf_veth::{self, VfVeth};
use crate::{Error, SimPortState, netdev};
use ferroband_kernel::Errno;
use ferroband_model::{LinkLayer, PKey};

impl SimMachine {
    /// Creates the interfaces of a function in the network namespace of the calling thread.
    pub(super) fn make_interfaces(&mut self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let (hca, address) = (view.hca.clone(), view.address);
        if id.vf.is_some() {
            self.ensure_veth(id)?;
            return self.refresh_interfaces(id);
        }
        // Write the names to the sysfs tree before creating the interfaces, because cleanup finds the names
        // there.
        let names = hca.ports.iter().map(|port| port.netdev.as_ref().map(|netdev| netdev.name.clone()));
        self.update_interfaces(id, names.collect())?;
        for port in &hca.ports {
            if let Some(interface) = &port.netdev {
                netdev::ensure(&mut self.route, interface, port.link_layer, address)?;
            }
        }
        Ok(())
    }

    /// Creates or updates the veth pair of a virtual function. Does nothing if the kernel does not support
    /// veth.
    pub(super) fn ensure_veth(&mut self, id: FunctionId) -> Result<(), Error> {
        let Some(veth) = self.desired_veth(id)? else { return Ok(()) };
        let uplink = self.uplink()?;
        match veth.ensure(&mut self.route, uplink.as_ref()) {
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Returns the desired veth pair of a virtual function; `None` if the function has no RDMA device.
    pub(super) fn desired_veth(&self, id: FunctionId) -> Result<Option<VfVeth>, Error> {
        let view = self.function_view(id)?;
        let (Some(vf), Some(vf_state), Some(device)) = (id.vf, view.vf, self.state.device(id)) else {
            return Ok(None);
        };
        let physical = view.hca.ports.first().and_then(|port| port.netdev.as_ref());
        Ok(Some(VfVeth {
            function: view.address,
            host_end: vf_veth::host_end_name(id.adapter, vf),
            name: vf_veth::interface_name(physical.map(|netdev| netdev.name.as_str()), vf),
            partition: match view.hca.link_layer() {
                LinkLayer::Ethernet => SimPartition::for_ethernet(),
                LinkLayer::InfiniBand => {
                    SimPartition::from_pkey(vf_state.pkeys.first().copied().unwrap_or(PKey::DEFAULT))
                }
            },
            up: view.port_state(device, 1) == SimPortState::Active,
        }))
    }

    /// Removes the interfaces of a function, in whichever namespace they are.
    pub(super) fn remove_interfaces(&mut self, id: FunctionId) -> Result<(), Error> {
        let names = self.state.device(id).map(|device| device.netdevs.clone()).unwrap_or_default();
        self.update_interfaces(id, vec![None; names.len()])?;
        match id.vf {
            Some(vf) => vf_veth::remove(&mut self.route, &vf_veth::host_end_name(id.adapter, vf))?,
            None => {
                for name in names.iter().flatten() {
                    netdev::remove(&mut self.route, name)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the interface names of a function's ports in the state and in the sysfs tree. A name is `None` if
    /// the interface is not in the host's namespace.
    pub(super) fn update_interfaces(
        &mut self,
        id: FunctionId,
        names: Vec<Option<String>>,
    ) -> Result<(), Error> {
        let tree = self.tree();
        let before = self.state.device(id).map(|device| device.netdevs.clone()).unwrap_or_default();
        if before == names {
            return Ok(());
        }
        self.mark_dirty()?;
        let view = self.function_view(id)?;
        let mut events = Vec::new();
        for name in before.iter().filter(|name| !names.contains(name)).flatten() {
            tree.remove_netdev(&view, name)?;
            events.push(("remove", view.sysfs_path().join("net").join(name)));
        }
        if let Some(device) = self.state.device_mut(id) {
            device.netdevs.clone_from(&names);
        }
        let view = self.function_view(id)?;
        if let Some(device) = self.state.device(id) {
            for (position, name) in names.iter().enumerate() {
                if let Some(name) = name.as_ref().filter(|_| before.get(position) != Some(name)) {
                    tree.write_netdev(&view, device, position + 1, name)?;
                    // Rewrite the port, because its GID table contains the interface name.
                    self.tree_for(device).write_port(&view, device, position + 1)?;
                    events.push(("add", view.sysfs_path().join("net").join(name)));
                }
            }
        }
        for (action, path) in events {
            self.push_event(action, "net", &path);
        }
        Ok(())
    }

    /// Finds the current name of a virtual function's interface by the alias of the interface, and updates
    /// the state and the sysfs tree.
    pub(super) fn refresh_interfaces(&mut self, id: FunctionId) -> Result<(), Error> {
        let alias = netdev::alias_for(self.function_view(id)?.address);
        let links = self.route.links()?;
        let found = links.into_iter().find(|link| link.alias.as_ref() == Some(&alias)).map(|link| link.name);
        let ports = self.state.device(id).map_or(0, |device| device.netdevs.len());
        let mut names = vec![None; ports];
        if let Some(first) = names.first_mut() {
            *first = found;
        }
        self.update_interfaces(id, names)
    }

    /// Creates the missing interfaces of all functions, and removes the veth pairs of virtual functions that
    /// no longer exist.
    pub(crate) fn ensure_interfaces(&mut self) -> Result<(), Error> {
        let mut desired = Vec::new();
        for id in self.state.functions() {
            if self.state.device(id).is_some() {
                desired.extend(id.vf.map(|vf| vf_veth::host_end_name(id.adapter, vf)));
                self.make_interfaces(id)?;
            }
        }
        let is_stale = |name: &str| name.starts_with("fbf") && !desired.iter().any(|desired| desired == name);
        for link in self.route.links()?.into_iter().filter(|link| is_stale(&link.name)) {
            vf_veth::remove(&mut self.route, &link.name)?;
        }
        Ok(())
    }
}
