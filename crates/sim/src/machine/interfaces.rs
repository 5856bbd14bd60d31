//! The interfaces of functions: taps for adapters, wires for virtual functions, and what the tree shows of
//! them.

use super::Machine;
use crate::partition::Partition;
use crate::state::Which;
use crate::wire::{self, Wire};
use crate::{Error, PortState, netdev};
use ferroband_kernel::Errno;
use ferroband_model::{LinkLayer, PKey};

impl Machine {
    /// Makes the interfaces of a function in this namespace. A kernel that cannot make one has none there.
    pub(super) fn make_interfaces(&mut self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let (hca, address) = (unit.hca.clone(), unit.address);
        if which.vf.is_some() {
            self.make_wire(which)?;
            return self.find_interfaces(which);
        }
        // In the tree first: whoever cleans up after us finds its name there.
        let names = hca.ports.iter().map(|port| port.netdev.as_ref().map(|netdev| netdev.name.clone()));
        self.show_interfaces(which, names.collect())?;
        for port in &hca.ports {
            if let Some(interface) = &port.netdev {
                netdev::ensure(&mut self.route, interface, port.link_layer, address)?;
            }
        }
        Ok(())
    }

    /// Has the wire of a virtual function.
    pub(super) fn make_wire(&mut self, which: Which) -> Result<(), Error> {
        let Some(wire) = self.wire(which)? else { return Ok(()) };
        let uplink = self.uplink()?;
        match wire.ensure(&mut self.route, uplink.as_ref()) {
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(()),
            result => Ok(result?),
        }
    }

    /// The wire that a virtual function should have; none without an RDMA device.
    pub(super) fn wire(&self, which: Which) -> Result<Option<Wire>, Error> {
        let unit = self.unit(which)?;
        let (Some(vf), Some(virtual_), Some(device)) = (which.vf, unit.virtual_, self.state.device(which))
        else {
            return Ok(None);
        };
        let physical = unit.hca.ports.first().and_then(|port| port.netdev.as_ref());
        Ok(Some(Wire {
            function: unit.address,
            here: wire::here(which.adapter, vf),
            name: wire::name(physical.map(|netdev| netdev.name.as_str()), vf),
            partition: match unit.hca.link_layer() {
                LinkLayer::Ethernet => Partition::ethernet(),
                LinkLayer::InfiniBand => {
                    Partition::of(virtual_.pkeys.first().copied().unwrap_or(PKey::DEFAULT))
                }
            },
            up: unit.port_state(device, 1) == PortState::Active,
        }))
    }

    /// Takes the interfaces of a function away, wherever they are.
    pub(super) fn remove_interfaces(&mut self, which: Which) -> Result<(), Error> {
        let names = self.state.device(which).map(|device| device.netdevs.clone()).unwrap_or_default();
        self.show_interfaces(which, vec![None; names.len()])?;
        match which.vf {
            Some(vf) => wire::remove(&mut self.route, &wire::here(which.adapter, vf))?,
            None => {
                for name in names.iter().flatten() {
                    netdev::remove(&mut self.route, name)?;
                }
            }
        }
        Ok(())
    }

    /// Lets the tree show that the interfaces of a function's ports are called so now, or are not here.
    pub(super) fn show_interfaces(&mut self, which: Which, names: Vec<Option<String>>) -> Result<(), Error> {
        let tree = self.tree();
        let before = self.state.device(which).map(|device| device.netdevs.clone()).unwrap_or_default();
        if before == names {
            return Ok(());
        }
        self.touch()?;
        let unit = self.unit(which)?;
        let mut told = Vec::new();
        for name in before.iter().filter(|name| !names.contains(name)).flatten() {
            tree.remove_netdev(&unit, name)?;
            told.push(("remove", unit.place().join("net").join(name)));
        }
        if let Some(device) = self.state.device_mut(which) {
            device.netdevs.clone_from(&names);
        }
        let unit = self.unit(which)?;
        if let Some(device) = self.state.device(which) {
            for (position, name) in names.iter().enumerate() {
                if let Some(name) = name.as_ref().filter(|_| before.get(position) != Some(name)) {
                    tree.netdev(&unit, device, position + 1, name)?;
                    // Its GID table names the interface.
                    self.tree_of(device).port(&unit, device, position + 1)?;
                    told.push(("add", unit.place().join("net").join(name)));
                }
            }
        }
        for (action, place) in told {
            self.tell(action, "net", &place);
        }
        Ok(())
    }

    /// Looks for the interface of a virtual function in this namespace.
    pub(super) fn find_interfaces(&mut self, which: Which) -> Result<(), Error> {
        let alias = netdev::alias(self.unit(which)?.address);
        let links = self.route.links()?;
        let found = links.into_iter().find(|link| link.alias.as_ref() == Some(&alias)).map(|link| link.name);
        let ports = self.state.device(which).map_or(0, |device| device.netdevs.len());
        let mut names = vec![None; ports];
        if let Some(first) = names.first_mut() {
            *first = found;
        }
        self.show_interfaces(which, names)
    }

    /// Has every interface that should be, and none that should not.
    pub(crate) fn ensure_interfaces(&mut self) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for which in self.state.functions() {
            if self.state.device(which).is_some() {
                wanted.extend(which.vf.map(|vf| wire::here(which.adapter, vf)));
                self.make_interfaces(which)?;
            }
        }
        let stray = |name: &str| name.starts_with("fbf") && !wanted.iter().any(|wanted| wanted == name);
        for link in self.route.links()?.into_iter().filter(|link| stray(&link.name)) {
            wire::remove(&mut self.route, &link.name)?;
        }
        Ok(())
    }
}
