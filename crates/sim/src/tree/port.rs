//! Ports of RDMA devices.

use super::{Tree, Unit, grouped};
use crate::state::Device;
use crate::{Error, PortState};
use ferroband_kernel::route::VfState;
use ferroband_model::{Guid, LinkLayer, PKey};

/// Slots of an adapter's P_Key table; ConnectX has this many.
const SLOTS: usize = 128;
/// Slots of a virtual function's P_Key table.
const VF_SLOTS: usize = 16;

impl Unit<'_> {
    /// What a port of its device is like; ports count from 1.
    ///
    /// A virtual function's follows the physical port unless it is told to be up or down, and is down without
    /// a GUID.
    pub(crate) fn port_state(&self, device: &Device, number: usize) -> PortState {
        let physical = self.adapter.ports.get(number - 1).copied().unwrap_or(PortState::Down);
        let guid = device.port_guids.get(number - 1);
        match self.virtual_.map(|virtual_| virtual_.state) {
            None => physical,
            Some(_) if guid.is_none_or(|guid| guid.is_unset()) => PortState::Down,
            Some(VfState::Auto) => physical,
            Some(VfState::Enable) => PortState::Active,
            Some(VfState::Disable) => PortState::Down,
        }
    }

    fn pkeys(&self) -> (&[PKey], usize) {
        match self.virtual_ {
            None if self.adapter.pkeys.is_empty() => (&[PKey::DEFAULT], SLOTS),
            None => (&self.adapter.pkeys, SLOTS),
            Some(virtual_) => (&virtual_.pkeys, VF_SLOTS),
        }
    }
}

impl Tree {
    /// Writes a port, or what has changed of it.
    pub(crate) fn port(&self, unit: &Unit<'_>, device: &Device, number: usize) -> Result<(), Error> {
        let place = unit.device_place(device).join("ports").join(number.to_string());
        let Some(port) = unit.hca.ports.get(number - 1) else { return Ok(()) };
        let guid = device.port_guids.get(number - 1).copied().unwrap_or(Guid::new(0));
        let now = unit.port_state(device, number);
        let (state, physical) = match now {
            PortState::Down => ("1: DOWN", "2: Polling"),
            PortState::Init => ("2: INIT", "5: LinkUp"),
            PortState::Active => ("4: ACTIVE", "5: LinkUp"),
        };
        let fabric = port.link_layer == LinkLayer::InfiniBand && now == PortState::Active;
        let lid = match unit.which.vf {
            None => unit.identity.lid(unit.which.adapter, number),
            Some(_) => crate::identity::lid(guid),
        };
        let (lid, sm_lid) = if fabric { (lid, 1) } else { (0, 0) };
        self.file(place.join("link_layer"), port.link_layer)?;
        self.file(place.join("state"), state)?;
        self.file(place.join("phys_state"), physical)?;
        self.file(place.join("rate"), &port.rate)?;
        self.file(place.join("lid"), format!("{lid:#x}"))?;
        self.file(place.join("lid_mask_count"), 0)?;
        self.file(place.join("sm_lid"), format!("{sm_lid:#x}"))?;
        self.file(place.join("sm_sl"), 0)?;
        self.file(place.join("gids/0"), format!("fe80:0000:0000:0000:{}", grouped(guid)))?;
        let (kind, netdev) = match port.link_layer {
            LinkLayer::InfiniBand => ("IB/RoCE v1", None),
            LinkLayer::Ethernet => ("RoCE v2", device.netdevs.get(number - 1).and_then(Option::as_ref)),
        };
        self.file(place.join("gid_attrs/types/0"), kind)?;
        if let Some(netdev) = netdev {
            self.file(place.join("gid_attrs/ndevs/0"), netdev)?;
        }
        let (keys, slots) = unit.pkeys();
        for slot in 0..slots {
            let key = keys.get(slot).map_or(0, |key| key.value());
            self.file(place.join("pkeys").join(slot.to_string()), format!("0x{key:04x}"))?;
        }
        Ok(())
    }
}
