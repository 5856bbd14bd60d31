//! Ports of RDMA devices.

use super::{FunctionView, SysfsTree, sysfs_guid};
use crate::state::SimRdmaDevice;
use crate::{Error, SimPortState};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Guid, LinkLayer, PKey};

/// Size of an adapter's P_Key table, as for ConnectX.
const PKEY_SLOTS: usize = 128;
/// Size of a virtual function's P_Key table.
const VF_PKEY_SLOTS: usize = 16;

impl FunctionView<'_> {
    /// State of port `number`, counted from 1, of the function's RDMA device.
    ///
    /// The port of a virtual function has the state of the physical port, unless the link state of the
    /// virtual function is set. It is down if the virtual function has no GUID.
    pub(crate) fn port_state(&self, device: &SimRdmaDevice, number: usize) -> SimPortState {
        let physical = self.adapter.ports.get(number - 1).copied().unwrap_or(SimPortState::Down);
        let guid = device.port_guids.get(number - 1);
        match self.vf.map(|vf_state| vf_state.state) {
            None => physical,
            Some(_) if guid.is_none_or(|guid| guid.is_unset()) => SimPortState::Down,
            Some(VfLinkState::Auto) => physical,
            Some(VfLinkState::Enable) => SimPortState::Active,
            Some(VfLinkState::Disable) => SimPortState::Down,
        }
    }

    fn pkey_table(&self) -> (&[PKey], usize) {
        match self.vf {
            None if self.adapter.pkeys.is_empty() => (&[PKey::DEFAULT], PKEY_SLOTS),
            None => (&self.adapter.pkeys, PKEY_SLOTS),
            Some(vf_state) => (&vf_state.pkeys, VF_PKEY_SLOTS),
        }
    }
}

impl SysfsTree {
    /// Writes the attributes of a port. Files whose content is unchanged are not touched.
    pub(crate) fn write_port(
        &self,
        view: &FunctionView<'_>,
        device: &SimRdmaDevice,
        number: usize,
    ) -> Result<(), Error> {
        let path = view.device_path(device).join("ports").join(number.to_string());
        let Some(port) = view.hca.ports.get(number - 1) else { return Ok(()) };
        let guid = device.port_guids.get(number - 1).copied().unwrap_or(Guid::new(0));
        let now = view.port_state(device, number);
        let (state, physical) = match now {
            SimPortState::Down => ("1: DOWN", "2: Polling"),
            SimPortState::Init => ("2: INIT", "5: LinkUp"),
            SimPortState::Active => ("4: ACTIVE", "5: LinkUp"),
        };
        let fabric = port.link_layer == LinkLayer::InfiniBand && now == SimPortState::Active;
        let lid = match view.id.vf {
            None => view.identity.lid(view.id.adapter, number),
            Some(_) => crate::identity::lid(guid),
        };
        let (lid, sm_lid) = if fabric { (lid, 1) } else { (0, 0) };
        self.write_file(path.join("link_layer"), port.link_layer)?;
        self.write_file(path.join("state"), state)?;
        self.write_file(path.join("phys_state"), physical)?;
        self.write_file(path.join("rate"), &port.rate)?;
        self.write_file(path.join("lid"), format!("{lid:#x}"))?;
        self.write_file(path.join("lid_mask_count"), 0)?;
        self.write_file(path.join("sm_lid"), format!("{sm_lid:#x}"))?;
        self.write_file(path.join("sm_sl"), 0)?;
        self.write_file(path.join("gids/0"), format!("fe80:0000:0000:0000:{}", sysfs_guid(guid)))?;
        let (kind, netdev) = match port.link_layer {
            LinkLayer::InfiniBand => ("IB/RoCE v1", None),
            LinkLayer::Ethernet => ("RoCE v2", device.netdevs.get(number - 1).and_then(Option::as_ref)),
        };
        self.write_file(path.join("gid_attrs/types/0"), kind)?;
        if let Some(netdev) = netdev {
            self.write_file(path.join("gid_attrs/ndevs/0"), netdev)?;
        }
        let (keys, slots) = view.pkey_table();
        for slot in 0..slots {
            let key = keys.get(slot).map_or(0, |key| key.value());
            self.write_file(path.join("pkeys").join(slot.to_string()), format!("0x{key:04x}"))?;
        }
        Ok(())
    }
}
