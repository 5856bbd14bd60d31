//! The interfaces of functions: taps for adapters, wires for virtual functions, and what the tree shows of
//! them.

use super::SimMachine;
use crate::partition::SimPartition;
use crate::state::FunctionId;
use crate::vf_veth::{self, VfVeth};
use crate::{Error, SimPortState, netdev};
use ferroband_kernel::Errno;
use ferroband_model::{LinkLayer, PKey};

impl SimMachine {
    /// Makes the interfaces of a function in this namespace. A kernel that cannot make one has none there.
    pub(super) fn make_interfaces(&mut self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let (hca, address) = (unit.hca.clone(), unit.address);
        if which.vf.is_some() {
            self.ensure_veth(which)?;
            return self.refresh_interfaces(which);
        }
        // In the tree first: whoever cleans up after us finds its name there.
        let names = hca.ports.iter().map(|port| port.netdev.as_ref().map(|netdev| netdev.name.clone()));
        self.update_interfaces(which, names.collect())?;
        for port in &hca.ports {
            if let Some(interface) = &port.netdev {
                netdev::ensure(&mut self.route, interface, port.link_layer, address)?;
            }
        }
        Ok(())
    }

    /// Has the wire of a virtual function.
    pub(super) fn ensure_veth(&mut self, which: FunctionId) -> Result<(), Error> {
        let Some(wire) = self.desired_veth(which)? else { return Ok(()) };
        let uplink = self.uplink()?;
        match wire.ensure(&mut self.route, uplink.as_ref()) {
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    /// The wire that a virtual function should have; none without an RDMA device.
    pub(super) fn desired_veth(&self, which: FunctionId) -> Result<Option<VfVeth>, Error> {
        let unit = self.function_view(which)?;
        let (Some(vf), Some(virtual_), Some(device)) = (which.vf, unit.vf, self.state.device(which)) else {
            return Ok(None);
        };
        let physical = unit.hca.ports.first().and_then(|port| port.netdev.as_ref());
        Ok(Some(VfVeth {
            function: unit.address,
            host_end: vf_veth::host_end_name(which.adapter, vf),
            name: vf_veth::interface_name(physical.map(|netdev| netdev.name.as_str()), vf),
            partition: match unit.hca.link_layer() {
                LinkLayer::Ethernet => SimPartition::for_ethernet(),
                LinkLayer::InfiniBand => {
                    SimPartition::from_pkey(virtual_.pkeys.first().copied().unwrap_or(PKey::DEFAULT))
                }
            },
            up: unit.port_state(device, 1) == SimPortState::Active,
        }))
    }

    /// Takes the interfaces of a function away, wherever they are.
    pub(super) fn remove_interfaces(&mut self, which: FunctionId) -> Result<(), Error> {
        let names = self.state.device(which).map(|device| device.netdevs.clone()).unwrap_or_default();
        self.update_interfaces(which, vec![None; names.len()])?;
        match which.vf {
            Some(vf) => vf_veth::remove(&mut self.route, &vf_veth::host_end_name(which.adapter, vf))?,
            None => {
                for name in names.iter().flatten() {
                    netdev::remove(&mut self.route, name)?;
                }
            }
        }
        Ok(())
    }

    /// Lets the tree show that the interfaces of a function's ports are called so now, or are not here.
    pub(super) fn update_interfaces(
        &mut self,
        which: FunctionId,
        names: Vec<Option<String>>,
    ) -> Result<(), Error> {
        let tree = self.tree();
        let before = self.state.device(which).map(|device| device.netdevs.clone()).unwrap_or_default();
        if before == names {
            return Ok(());
        }
        self.mark_dirty()?;
        let unit = self.function_view(which)?;
        let mut told = Vec::new();
        for name in before.iter().filter(|name| !names.contains(name)).flatten() {
            tree.remove_netdev(&unit, name)?;
            told.push(("remove", unit.sysfs_path().join("net").join(name)));
        }
        if let Some(device) = self.state.device_mut(which) {
            device.netdevs.clone_from(&names);
        }
        let unit = self.function_view(which)?;
        if let Some(device) = self.state.device(which) {
            for (position, name) in names.iter().enumerate() {
                if let Some(name) = name.as_ref().filter(|_| before.get(position) != Some(name)) {
                    tree.write_netdev(&unit, device, position + 1, name)?;
                    // Its GID table names the interface.
                    self.tree_for(device).write_port(&unit, device, position + 1)?;
                    told.push(("add", unit.sysfs_path().join("net").join(name)));
                }
            }
        }
        for (action, place) in told {
            self.push_event(action, "net", &place);
        }
        Ok(())
    }

    /// Looks for the interface of a virtual function in this namespace.
    pub(super) fn refresh_interfaces(&mut self, which: FunctionId) -> Result<(), Error> {
        let alias = netdev::alias_for(self.function_view(which)?.address);
        let links = self.route.links()?;
        let found = links.into_iter().find(|link| link.alias.as_ref() == Some(&alias)).map(|link| link.name);
        let ports = self.state.device(which).map_or(0, |device| device.netdevs.len());
        let mut names = vec![None; ports];
        if let Some(first) = names.first_mut() {
            *first = found;
        }
        self.update_interfaces(which, names)
    }

    /// Has every interface that should be, and none that should not.
    pub(crate) fn ensure_interfaces(&mut self) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for which in self.state.functions() {
            if self.state.device(which).is_some() {
                wanted.extend(which.vf.map(|vf| vf_veth::host_end_name(which.adapter, vf)));
                self.make_interfaces(which)?;
            }
        }
        let stray = |name: &str| name.starts_with("fbf") && !wanted.iter().any(|wanted| wanted == name);
        for link in self.route.links()?.into_iter().filter(|link| stray(&link.name)) {
            vf_veth::remove(&mut self.route, &link.name)?;
        }
        Ok(())
    }
}
