//! State, P_Keys and counters of ports, and the settings of virtual functions.

use super::{SimMachine, device_error};
use crate::state::{FunctionId, SimVf};
use crate::sysfs_tree::counters;
use crate::{Error, SimPortState};
use ferroband_kernel::Errno;
use ferroband_kernel::rtnetlink::{GuidKind, VfLinkState};
use ferroband_model::{Guid, PKey};

impl SimMachine {
    /// Changes the state of port `number`, counted from 1. Leaving the active state increments `link_downed`.
    pub(crate) fn set_port_state(
        &mut self,
        adapter: usize,
        number: usize,
        state: SimPortState,
    ) -> Result<(), Error> {
        let id = FunctionId { adapter, vf: None };
        let address = self.function_view(id)?.address;
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
        let device = self.state.device_mut(id);
        if let Some(counters) = device.and_then(|device| device.counters.get_mut(number - 1)).filter(|_| lost)
        {
            *counters.entry("link_downed".to_owned()).or_default() += 1;
        }
        let vfs = self.state.adapters.get(adapter).map_or(0, |adapter| adapter.vfs.len());
        self.update_ports(id)?;
        (0..vfs).try_for_each(|vf| self.update_ports(FunctionId { adapter, vf: Some(vf) }))
    }

    /// Writes the ports of a function to the sysfs tree, updates the carrier of its interface and sends an
    /// event.
    fn update_ports(&mut self, id: FunctionId) -> Result<(), Error> {
        if self.state.device(id).is_none() {
            return Ok(());
        }
        self.ensure_veth(id)?;
        let view = self.function_view(id)?;
        let Some(device) = self.state.device(id) else { return Ok(()) };
        for number in 1..=view.hca.ports.len() {
            self.tree_for(device).write_port(&view, device, number)?;
        }
        self.write_counters(id)?;
        // The kernel sends no uevent when a port changes. On real hardware, the interface loses its carrier,
        // and verbs report an asynchronous event.
        let path = view.device_path(device);
        self.push_event("change", "infiniband", &path);
        Ok(())
    }

    fn vf_mut(&mut self, id: FunctionId, vf: u32, doing: &str) -> Result<(FunctionId, &mut SimVf), Error> {
        let address = self.function_view(id)?.address;
        let index = vf as usize;
        let adapter = self.state.adapters.get_mut(id.adapter);
        match adapter.and_then(|adapter| adapter.vfs.get_mut(index)).filter(|_| id.vf.is_none()) {
            Some(vf_state) => Ok((FunctionId { vf: Some(index), ..id }, vf_state)),
            // mlx5 returns EINVAL for a virtual function that does not exist.
            None => Err(device_error(&format!("{doing} virtual function {vf} of"), address, Errno::EINVAL)),
        }
    }

    /// Sets a GUID of a virtual function, which takes effect when its driver is bound the next time.
    pub(crate) fn set_vf_guid(
        &mut self,
        id: FunctionId,
        vf: u32,
        kind: GuidKind,
        guid: Guid,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        let (_, vf_state) = self.vf_mut(id, vf, &format!("set {kind} {guid} of"))?;
        match kind {
            GuidKind::Node => vf_state.node_guid = guid,
            GuidKind::Port => vf_state.port_guid = guid,
        }
        Ok(())
    }

    /// Sets the link state of a virtual function, which takes effect immediately.
    pub(crate) fn set_vf_link_state(
        &mut self,
        id: FunctionId,
        vf: u32,
        state: VfLinkState,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        let (vf, vf_state) = self.vf_mut(id, vf, &format!("set link state {state} of"))?;
        vf_state.state = state;
        self.update_ports(vf)
    }

    /// Writes the P_Key table of a port, as the subnet manager does. The first key determines the partition of a
    /// virtual function's interface.
    pub(crate) fn set_pkeys(&mut self, id: FunctionId, keys: Vec<PKey>) -> Result<(), Error> {
        let address = self.function_view(id)?.address;
        let adapter = self.state.adapters.get_mut(id.adapter);
        let table = adapter.and_then(|adapter| match id.vf {
            None => Some(&mut adapter.pkeys),
            Some(vf) => adapter.vfs.get_mut(vf).map(|vf_state| &mut vf_state.pkeys),
        });
        match table {
            None => return Err(device_error("set the P_Keys of", address, Errno::EINVAL)),
            // An unchanged P_Key table causes no event.
            Some(table) if *table == keys => return Ok(()),
            Some(table) => *table = keys,
        }
        self.mark_dirty()?;
        self.update_ports(id)
    }

    /// Adds `by` to the counter `name` of a port. Fails with EINVAL if there is no such counter.
    pub(crate) fn add_to_counter(
        &mut self,
        id: FunctionId,
        number: usize,
        name: &str,
        by: u64,
    ) -> Result<(), Error> {
        let address = self.function_view(id)?.address;
        let refuse =
            |errno| device_error(&format!("add to counter {name} of port {number} of"), address, errno);
        if !counters::is_known(name) {
            return Err(refuse(Errno::EINVAL));
        }
        let device = self.state.device_mut(id).ok_or_else(|| refuse(Errno::ENODEV))?;
        let position = number.checked_sub(1);
        let port = position.and_then(|position| device.counters.get_mut(position));
        *port.ok_or_else(|| refuse(Errno::ENODEV))?.entry(name.to_owned()).or_default() += by;
        self.mark_dirty()?;
        self.write_counters(id)
    }

    /// Writes the counters of a function's ports to the sysfs tree. Like the kernel, sends no event.
    pub(super) fn write_counters(&self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let Some(device) = self.state.device(id) else { return Ok(()) };
        for number in 1..=view.hca.ports.len() {
            self.tree_for(device).write_counters(&view, device, number)?;
        }
        self.tree().write_netdevs(&view, device)
    }
}
