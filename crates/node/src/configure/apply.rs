//! Doing what is due. Every step can be the last one of a daemon that is killed: the next pass sees what is missing.

use super::{
    due::{Driver, Due, VfDue},
    record::Records,
};
use crate::Error;
use ferroband_kernel::{
    Hardware, Route,
    route::{GuidKind, VfState},
};
use ferroband_model::PciAddress;
use tracing::info;

/// Do it. Blocks, for seconds if functions are made; not to be called where an async runtime works.
pub fn apply(hardware: &dyn Hardware, records: &Records, pf: PciAddress, due: &Due) -> Result<(), Error> {
    if let Some(record) = &due.record {
        records.put(pf, record)?;
    }
    if let Some(count) = due.count {
        info!(%pf, count, "making virtual functions");
        // The kernel makes them from none only.
        hardware.set_vf_count(pf, 0)?;
        if count > 0 {
            hardware.set_vf_count(pf, count)?;
        }
    }
    for vf in &due.vfs {
        function(hardware, pf, vf)?;
    }
    if due.mtu.is_some() || due.up.is_some() {
        let mut route = Route::here()?;
        if let Some(link) = hardware.interfaces(pf, None)?.first() {
            if let Some(mtu) = due.mtu {
                route.set_mtu(link.index, mtu)?;
            }
            match due.up {
                Some(true) => route.up(link.index)?,
                Some(false) => route.down(link.index)?,
                None => {}
            }
        }
    }
    if due.forget {
        info!(%pf, "as it was before; not ours any more");
        records.remove(pf)?;
    }
    Ok(())
}

fn function(hardware: &dyn Hardware, pf: PciAddress, due: &VfDue) -> Result<(), Error> {
    if let Some(guid) = due.guid {
        hardware.set_vf_guid(pf, due.index, GuidKind::Node, guid)?;
        hardware.set_vf_guid(pf, due.index, GuidKind::Port, guid)?;
    }
    if due.follow {
        hardware.set_vf_state(pf, due.index, VfState::Auto)?;
    }
    match due.rebind {
        None => {}
        Some(Driver::Own) => {
            hardware.unbind_driver(due.pci)?;
            hardware.override_driver(due.pci, None)?;
            hardware.probe_driver(due.pci)?;
        }
        Some(Driver::Vfio) => {
            hardware.unbind_driver(due.pci)?;
            hardware.override_driver(due.pci, Some("vfio-pci"))?;
            let bound = hardware.bind_driver(due.pci, "vfio-pci");
            // Whoever binds it next shall choose by its numbers again.
            hardware.override_driver(due.pci, None)?;
            bound?;
        }
    }
    if let Some((name, mtu)) = &due.mtu {
        let mut route = Route::here()?;
        if let Some(link) = route.link(name)? {
            route.set_mtu(link.index, *mtu)?;
        }
    }
    Ok(())
}
