//! What can be refused before anything is touched.

use super::{Function, Held, Owner};
use crate::config::Fields;
use crate::plan::VfStep;
use crate::{Error, Machine};
use ferroband_kernel::{Hardware, NetnsMode};
use serde_json::{Map, Value};

/// Refuse what cannot work.
pub(crate) fn check(
    machine: &Machine<'_>,
    owner: &Owner,
    vf: &VfStep,
    config: &Map<String, Value>,
) -> Result<(), Error> {
    let hardware = machine.adapters()?;
    if Fields(config).ipam_type()? == Some("dhcp") {
        return Err(Error::Dhcp);
    }
    isolated(hardware, vf)?;
    let function = Function::get(hardware, vf.device)?;
    match Held::load(machine.root, vf.device)?.filter(|held| held.owner != *owner) {
        Some(held) if held.owner.lives(machine.root)? => {
            Err(Error::FunctionInUse { function: vf.device, container: held.owner.container })
        }
        // Restored before it is given; what it is like now does not count.
        Some(_) => Ok(()),
        None => usable(hardware, vf, &function),
    }
}

/// Whether the pod gets the RDMA device for itself.
pub(super) fn isolated(hardware: &dyn Hardware, vf: &VfStep) -> Result<bool, Error> {
    let exclusive = || Ok::<_, Error>(hardware.rdma_netns_mode()? == NetnsMode::Exclusive);
    match vf.isolation {
        Some(true) if !exclusive()? => Err(Error::SharedRdma),
        Some(asked) => Ok(asked),
        None => Ok(exclusive().unwrap_or(false)),
    }
}

/// Whether the function is one that can be given so.
pub(super) fn usable(hardware: &dyn Hardware, vf: &VfStep, function: &Function) -> Result<(), Error> {
    let device = vf.device;
    if vf.vfio && !function.is_vfio() {
        return Err(Error::NotVfio { function: device, driver: function.driver.clone().unwrap_or_default() });
    }
    if function.physical.is_none() {
        return if function.is_vfio() { Ok(()) } else { Err(Error::NotVirtual { function: device }) };
    }
    if vf.managed && vf.guid.is_none() {
        return Err(Error::NoManagedGuid { function: device });
    }
    if function.is_vfio() {
        return Ok(());
    }
    if function.is_ethernet() {
        return Err(Error::NotInfiniBand { function: device });
    }
    if vf.guid.is_none() && function.driver.is_some() {
        let interface = super::interface::here(hardware, device)?;
        let own = function.guids().1.or_else(|| interface.as_ref().and_then(super::function::guid_of));
        if own.is_none() {
            let name = interface.map_or_else(|| device.to_string(), |link| link.name);
            return Err(Error::NoGuid { interface: name });
        }
    }
    Ok(())
}
