//! What can be refused before anything is touched.

use super::{ObservedVf, VfLease, VfOwner};
use crate::config::ConfigFields;
use crate::plan::VfStep;
use crate::{CniContext, Error};
use ferroband_kernel::{Hardware, NetnsMode};
use serde_json::{Map, Value};

/// Refuse what cannot work.
pub(crate) fn preflight(
    machine: &CniContext<'_>,
    owner: &VfOwner,
    vf: &VfStep,
    config: &Map<String, Value>,
) -> Result<(), Error> {
    let hardware = machine.require_hardware()?;
    if ConfigFields(config).ipam_type()? == Some("dhcp") {
        return Err(Error::Dhcp);
    }
    is_isolated(hardware, vf)?;
    let function = ObservedVf::get(hardware, vf.device)?;
    match VfLease::load(machine.root, vf.device)?.filter(|held| held.owner != *owner) {
        Some(held) if held.owner.is_alive(machine.root)? => {
            Err(Error::FunctionInUse { function: vf.device, container: held.owner.container })
        }
        // Restored before it is given; what it is like now does not count.
        Some(_) => Ok(()),
        None => check_usable(hardware, vf, &function),
    }
}

/// Whether the pod gets the RDMA device for itself.
pub(super) fn is_isolated(hardware: &dyn Hardware, vf: &VfStep) -> Result<bool, Error> {
    let exclusive = || Ok::<_, Error>(hardware.rdma_netns_mode()? == NetnsMode::Exclusive);
    match vf.isolation {
        Some(true) if !exclusive()? => Err(Error::SharedRdma),
        Some(asked) => Ok(asked),
        None => Ok(exclusive().unwrap_or(false)),
    }
}

/// Whether the function is one that can be given so.
pub(super) fn check_usable(hardware: &dyn Hardware, vf: &VfStep, function: &ObservedVf) -> Result<(), Error> {
    let device = vf.device;
    if vf.vfio && !function.is_vfio() {
        return Err(Error::NotVfio { function: device, driver: function.driver.clone().unwrap_or_default() });
    }
    if function.pf_index.is_none() {
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
        let interface = super::interface::find_in_host(hardware, device)?;
        let own = function
            .active_guids()
            .1
            .or_else(|| interface.as_ref().and_then(super::function::guid_from_address));
        if own.is_none() {
            let name = interface.map_or_else(|| device.to_string(), |link| link.name);
            return Err(Error::NoGuid { interface: name });
        }
    }
    Ok(())
}
