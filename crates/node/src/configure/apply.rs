//! Doing what is due. Every step can be the last one of a daemon that is killed: the next pass sees what is missing.

use super::{
    due::{AdapterChanges, VfChanges, VfDriver},
    record::OriginalStateStore,
};
use crate::Error;
use ferroband_kernel::{
    Hardware, RouteSocket,
    rtnetlink::{GuidKind, VfLinkState},
};
use ferroband_model::PciAddress;
use tracing::info;

/// Do it. Blocks, for seconds if functions are made; not to be called where an async runtime works.
pub fn apply(
    hardware: &dyn Hardware,
    records: &OriginalStateStore,
    pf: PciAddress,
    due: &AdapterChanges,
) -> Result<(), Error> {
    if let Some(record) = &due.original_state {
        records.write(pf, record)?;
    }
    if let Some(count) = due.vf_count {
        info!(%pf, count, "making virtual functions");
        // The kernel makes them from none only.
        hardware.set_vf_count(pf, 0)?;
        if count > 0 {
            hardware.set_vf_count(pf, count)?;
        }
    }
    for vf in &due.vfs {
        apply_vf(hardware, pf, vf)?;
    }
    if due.mtu.is_some() || due.up.is_some() {
        let mut route = RouteSocket::open()?;
        if let Some(link) = hardware.interfaces(pf, None)?.first() {
            if let Some(mtu) = due.mtu {
                route.set_mtu(link.index, mtu)?;
            }
            match due.up {
                Some(true) => route.set_up(link.index)?,
                Some(false) => route.set_down(link.index)?,
                None => {}
            }
        }
    }
    if due.remove_original_state {
        info!(%pf, "as it was before; not ours any more");
        records.remove(pf)?;
    }
    Ok(())
}

fn apply_vf(hardware: &dyn Hardware, pf: PciAddress, due: &VfChanges) -> Result<(), Error> {
    if let Some(guid) = due.guid {
        hardware.set_vf_guid(pf, due.index, GuidKind::Node, guid)?;
        hardware.set_vf_guid(pf, due.index, GuidKind::Port, guid)?;
    }
    if due.set_link_auto {
        hardware.set_vf_link_state(pf, due.index, VfLinkState::Auto)?;
    }
    match due.rebind {
        None => {}
        Some(VfDriver::Kernel) => {
            hardware.unbind_driver(due.pci)?;
            hardware.set_driver_override(due.pci, None)?;
            hardware.probe_driver(due.pci)?;
        }
        Some(VfDriver::Vfio) => {
            hardware.unbind_driver(due.pci)?;
            hardware.set_driver_override(due.pci, Some("vfio-pci"))?;
            let bound = hardware.bind_driver(due.pci, "vfio-pci");
            // Whoever binds it next shall choose by its numbers again.
            hardware.set_driver_override(due.pci, None)?;
            bound?;
        }
    }
    if let Some((name, mtu)) = &due.mtu {
        let mut route = RouteSocket::open()?;
        if let Some(link) = route.link(name)? {
            route.set_mtu(link.index, *mtu)?;
        }
    }
    Ok(())
}
