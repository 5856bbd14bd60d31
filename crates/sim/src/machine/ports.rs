//! Ports and what is set for virtual functions.

use super::{Machine, refused};
use crate::state::{Virtual, Which};
use crate::tree::counters;
use crate::{Error, PortState};
use ferroband_kernel::Errno;
use ferroband_kernel::route::{GuidKind, VfState};
use ferroband_model::{Guid, PKey};

impl Machine {
    /// Something happens to the cable of a port, or to the subnet manager; ports count from 1.
    pub(crate) fn set_port(&mut self, adapter: usize, number: usize, state: PortState) -> Result<(), Error> {
        let which = Which { adapter, vf: None };
        let address = self.unit(which)?.address;
        let ports = self.state.adapters.get_mut(adapter).map(|adapter| &mut adapter.ports);
        let Some(port) = number.checked_sub(1).and_then(|index| ports?.get_mut(index)) else {
            return Err(refused(&format!("find port {number} of"), address, Errno::ENODEV));
        };
        if *port == state {
            return Ok(());
        }
        let lost = *port == PortState::Active;
        *port = state;
        self.touch()?;
        let device = self.state.device_mut(which);
        if let Some(counters) = device.and_then(|device| device.counters.get_mut(number - 1)).filter(|_| lost)
        {
            *counters.entry("link_downed".to_owned()).or_default() += 1;
        }
        let vfs = self.state.adapters.get(adapter).map_or(0, |adapter| adapter.vfs.len());
        self.show_ports(which)?;
        (0..vfs).try_for_each(|vf| self.show_ports(Which { adapter, vf: Some(vf) }))
    }

    /// Lets the trees, and the carrier, show what the ports of a function are like now.
    fn show_ports(&mut self, which: Which) -> Result<(), Error> {
        if self.state.device(which).is_none() {
            return Ok(());
        }
        self.make_wire(which)?;
        let unit = self.unit(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        for number in 1..=unit.hca.ports.len() {
            self.tree_of(device).port(&unit, device, number)?;
            self.tree_of(device).counters(&unit, device, number)?;
        }
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                self.tree().netdev(&unit, device, position + 1, name)?;
            }
        }
        // The kernel has no such event; there it is the interface that loses its carrier, or an asynchronous
        // event of verbs.
        let place = unit.device_place(device);
        self.tell("change", "infiniband", &place);
        Ok(())
    }

    fn virtual_mut(&mut self, which: Which, vf: u32, doing: &str) -> Result<(Which, &mut Virtual), Error> {
        let address = self.unit(which)?.address;
        let index = vf as usize;
        let adapter = self.state.adapters.get_mut(which.adapter);
        match adapter.and_then(|adapter| adapter.vfs.get_mut(index)).filter(|_| which.vf.is_none()) {
            Some(virtual_) => Ok((Which { vf: Some(index), ..which }, virtual_)),
            // What mlx5 answers about a function that it does not have.
            None => Err(refused(&format!("{doing} virtual function {vf} of"), address, Errno::EINVAL)),
        }
    }

    /// Gives a virtual function a GUID; it has it from its next driver on.
    pub(crate) fn set_guid(
        &mut self,
        which: Which,
        vf: u32,
        kind: GuidKind,
        guid: Guid,
    ) -> Result<(), Error> {
        self.touch()?;
        let (_, virtual_) = self.virtual_mut(which, vf, &format!("set {kind} {guid} of"))?;
        match kind {
            GuidKind::Node => virtual_.node_guid = guid,
            GuidKind::Port => virtual_.port_guid = guid,
        }
        Ok(())
    }

    /// Sets the link state of a virtual function.
    pub(crate) fn set_vf_state(&mut self, which: Which, vf: u32, state: VfState) -> Result<(), Error> {
        self.touch()?;
        let (vf, virtual_) = self.virtual_mut(which, vf, &format!("set link state {state} of"))?;
        virtual_.state = state;
        self.show_ports(vf)
    }

    /// The subnet manager writes the P_Key table of a port. A virtual function's interface is in the partition of the
    /// first key.
    pub(crate) fn set_pkeys(&mut self, which: Which, keys: Vec<PKey>) -> Result<(), Error> {
        let address = self.unit(which)?.address;
        let adapter = self.state.adapters.get_mut(which.adapter);
        let table = adapter.and_then(|adapter| match which.vf {
            None => Some(&mut adapter.pkeys),
            Some(vf) => adapter.vfs.get_mut(vf).map(|virtual_| &mut virtual_.pkeys),
        });
        match table {
            None => return Err(refused("set the P_Keys of", address, Errno::EINVAL)),
            // Nobody is told of what did not change.
            Some(table) if *table == keys => return Ok(()),
            Some(table) => *table = keys,
        }
        self.touch()?;
        self.show_ports(which)
    }

    /// Something is counted on a port.
    pub(crate) fn count(&mut self, which: Which, number: usize, name: &str, by: u64) -> Result<(), Error> {
        let address = self.unit(which)?.address;
        let refuse = |errno| refused(&format!("count {name} on port {number} of"), address, errno);
        if !counters::known(name) {
            return Err(refuse(Errno::EINVAL));
        }
        let device = self.state.device_mut(which).ok_or_else(|| refuse(Errno::ENODEV))?;
        let position = number.checked_sub(1);
        let port = position.and_then(|position| device.counters.get_mut(position));
        *port.ok_or_else(|| refuse(Errno::ENODEV))?.entry(name.to_owned()).or_default() += by;
        self.touch()?;
        self.show_counters(which)
    }

    /// Lets the trees show what was counted on the ports of a function. Nobody is told: the kernel does not,
    /// either.
    pub(super) fn show_counters(&self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        for number in 1..=unit.hca.ports.len() {
            self.tree_of(device).counters(&unit, device, number)?;
        }
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                self.tree().netdev(&unit, device, position + 1, name)?;
            }
        }
        Ok(())
    }
}
