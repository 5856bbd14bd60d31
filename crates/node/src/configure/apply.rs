//! Applies planned changes to an adapter. If the daemon is killed between two changes, the next configuration
//! pass plans the remaining changes.

use super::{
    due::AdapterChanges,
    record::OriginalStateStore,
    vf_plan::{VfChanges, VfDriver},
};
use crate::Error;
use ferroband_kernel::{
    Hardware, RouteSocket,
    rtnetlink::{GuidKind, VfLinkState},
};
use ferroband_model::PciAddress;
use tracing::info;

/// Applies the changes to one adapter. Creating functions blocks for seconds, so do not call this on a thread
/// of the async runtime.
pub fn apply(
    hardware: &dyn Hardware,
    original_states: &OriginalStateStore,
    pf: PciAddress,
    changes: &AdapterChanges,
) -> Result<(), Error> {
    if let Some(original_state) = &changes.original_state {
        original_states.write(pf, original_state)?;
    }
    if let Some(count) = changes.vf_count {
        info!(%pf, count, "creating virtual functions");
        // The kernel rejects a change from one nonzero number of virtual functions to another, so set 0
        // first.
        hardware.set_vf_count(pf, 0)?;
        if count > 0 {
            hardware.set_vf_count(pf, count)?;
        }
    }
    for vf in &changes.vfs {
        apply_vf(hardware, pf, vf)?;
    }
    if changes.mtu.is_some() || changes.up.is_some() {
        let mut route = RouteSocket::open()?;
        if let Some(link) = hardware.interfaces(pf, None)?.first() {
            if let Some(mtu) = changes.mtu {
                route.set_mtu(link.index, mtu)?;
            }
            match changes.up {
                Some(true) => route.set_up(link.index)?,
                Some(false) => route.set_down(link.index)?,
                None => {}
            }
        }
    }
    if changes.remove_original_state {
        info!(%pf, "original state restored, adapter no longer managed");
        original_states.remove(pf)?;
    }
    Ok(())
}

fn apply_vf(hardware: &dyn Hardware, pf: PciAddress, changes: &VfChanges) -> Result<(), Error> {
    if let Some(guid) = changes.guid {
        hardware.set_vf_guid(pf, changes.index, GuidKind::Node, guid)?;
        hardware.set_vf_guid(pf, changes.index, GuidKind::Port, guid)?;
    }
    if changes.set_link_auto {
        hardware.set_vf_link_state(pf, changes.index, VfLinkState::Auto)?;
    }
    match changes.rebind {
        None => {}
        Some(VfDriver::Kernel) => {
            hardware.unbind_driver(changes.pci)?;
            hardware.set_driver_override(changes.pci, None)?;
            hardware.probe_driver(changes.pci)?;
        }
        Some(VfDriver::Vfio) => {
            hardware.unbind_driver(changes.pci)?;
            hardware.set_driver_override(changes.pci, Some("vfio-pci"))?;
            let bound = hardware.bind_driver(changes.pci, "vfio-pci");
            // Clear the override, so that later binds match drivers by device id again.
            hardware.set_driver_override(changes.pci, None)?;
            bound?;
        }
    }
    if let Some((name, mtu)) = &changes.mtu {
        let mut route = RouteSocket::open()?;
        if let Some(link) = route.link(name)? {
            route.set_mtu(link.index, *mtu)?;
        }
    }
    Ok(())
}
