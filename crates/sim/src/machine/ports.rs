//! Ports and what is set for virtual functions.

use super::{SimMachine, device_error};
use crate::state::{FunctionId, SimVf};
use crate::sysfs_tree::counters;
use crate::{Error, SimPortState};
use ferroband_kernel::Errno;
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_model::{Guid, PKey};

impl SimMachine {
    /// Something happens to the cable of a port, or to the subnet manager; ports count from 1.
    pub(crate) fn set_port_state(
        &mut self,
        adapter: usize,
        number: usize,
        state: SimPortState,
    ) -> Result<(), Error> {
        let which = FunctionId { adapter, vf: None };
        let address = self.function_view(which)?.address;
        let ports = self.state.adapters.get_mut(adapter).map(|adapter| &mut adapter.ports);
        let Some(port) = number.checked_sub(1).and_then(|index| ports?.get_mut(index)) else {
            return Err(device_error(&format!("find port {number} of"), address, Errno::ENODEV));
        };
        if *port == state {
            return Ok(());
        }
        let lost = *port == SimPortState::Active;
        *port = state;
        self.mark_dirty()?;
        let device = self.state.device_mut(which);
        if let Some(counters) = device.and_then(|device| device.counters.get_mut(number - 1)).filter(|_| lost)
        {
            *counters.entry("link_downed".to_owned()).or_default() += 1;
        }
        let vfs = self.state.adapters.get(adapter).map_or(0, |adapter| adapter.vfs.len());
        self.update_ports(which)?;
        (0..vfs).try_for_each(|vf| self.update_ports(FunctionId { adapter, vf: Some(vf) }))
    }

    /// Lets the trees, and the carrier, show what the ports of a function are like now.
    fn update_ports(&mut self, which: FunctionId) -> Result<(), Error> {
        if self.state.device(which).is_none() {
            return Ok(());
        }
        self.ensure_veth(which)?;
        let unit = self.function_view(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        for number in 1..=unit.hca.ports.len() {
            self.tree_for(device).write_port(&unit, device, number)?;
            self.tree_for(device).write_counters(&unit, device, number)?;
        }
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                self.tree().write_netdev(&unit, device, position + 1, name)?;
            }
        }
        // The kernel has no such event; there it is the interface that loses its carrier, or an asynchronous
        // event of verbs.
        let place = unit.device_path(device);
        self.push_event("change", "infiniband", &place);
        Ok(())
    }

    fn vf_mut(&mut self, which: FunctionId, vf: u32, doing: &str) -> Result<(FunctionId, &mut SimVf), Error> {
        let address = self.function_view(which)?.address;
        let index = vf as usize;
        let adapter = self.state.adapters.get_mut(which.adapter);
        match adapter.and_then(|adapter| adapter.vfs.get_mut(index)).filter(|_| which.vf.is_none()) {
            Some(virtual_) => Ok((FunctionId { vf: Some(index), ..which }, virtual_)),
            // What mlx5 answers about a function that it does not have.
            None => Err(device_error(&format!("{doing} virtual function {vf} of"), address, Errno::EINVAL)),
        }
    }

    /// Gives a virtual function a GUID; it has it from its next driver on.
    pub(crate) fn set_vf_guid(
        &mut self,
        which: FunctionId,
        vf: u32,
        kind: GuidKind,
        guid: Guid,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        let (_, virtual_) = self.vf_mut(which, vf, &format!("set {kind} {guid} of"))?;
        match kind {
            GuidKind::Node => virtual_.node_guid = guid,
            GuidKind::Port => virtual_.port_guid = guid,
        }
        Ok(())
    }

    /// Sets the link state of a virtual function.
    pub(crate) fn set_vf_link_state(
        &mut self,
        which: FunctionId,
        vf: u32,
        state: VfLinkState,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        let (vf, virtual_) = self.vf_mut(which, vf, &format!("set link state {state} of"))?;
        virtual_.state = state;
        self.update_ports(vf)
    }

    /// The subnet manager writes the P_Key table of a port. A virtual function's interface is in the partition of the
    /// first key.
    pub(crate) fn set_pkeys(&mut self, which: FunctionId, keys: Vec<PKey>) -> Result<(), Error> {
        let address = self.function_view(which)?.address;
        let adapter = self.state.adapters.get_mut(which.adapter);
        let table = adapter.and_then(|adapter| match which.vf {
            None => Some(&mut adapter.pkeys),
            Some(vf) => adapter.vfs.get_mut(vf).map(|virtual_| &mut virtual_.pkeys),
        });
        match table {
            None => return Err(device_error("set the P_Keys of", address, Errno::EINVAL)),
            // Nobody is told of what did not change.
            Some(table) if *table == keys => return Ok(()),
            Some(table) => *table = keys,
        }
        self.mark_dirty()?;
        self.update_ports(which)
    }

    /// Something is counted on a port.
    pub(crate) fn add_to_counter(
        &mut self,
        which: FunctionId,
        number: usize,
        name: &str,
        by: u64,
    ) -> Result<(), Error> {
        let address = self.function_view(which)?.address;
        let refuse = |errno| device_error(&format!("count {name} on port {number} of"), address, errno);
        if !counters::is_known(name) {
            return Err(refuse(Errno::EINVAL));
        }
        let device = self.state.device_mut(which).ok_or_else(|| refuse(Errno::ENODEV))?;
        let position = number.checked_sub(1);
        let port = position.and_then(|position| device.counters.get_mut(position));
        *port.ok_or_else(|| refuse(Errno::ENODEV))?.entry(name.to_owned()).or_default() += by;
        self.mark_dirty()?;
        self.write_counters(which)
    }

    /// Lets the trees show what was counted on the ports of a function. Nobody is told: the kernel does not,
    /// either.
    pub(super) fn write_counters(&self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        for number in 1..=unit.hca.ports.len() {
            self.tree_for(device).write_counters(&unit, device, number)?;
        }
        for (position, name) in device.netdevs.iter().enumerate() {
            if let Some(name) = name {
                self.tree().write_netdev(&unit, device, position + 1, name)?;
            }
        }
        Ok(())
    }
}
