//! Checks of a virtual function and its settings before an ADD changes anything.

use super::{ObservedVf, VfLease, VfOwner};
use crate::protocol::{CniContext, Error};
use ferroband_config::{IbSriovConfig, InterfaceConfig};
use ferroband_kernel::{Hardware, NetnsMode};
use serde_json::{Map, Value};

/// Fail if the function does not exist, belongs to another sandbox or does not fit the step.
pub(crate) fn preflight(
    context: &CniContext<'_>,
    owner: &VfOwner,
    vf: &IbSriovConfig,
    config: &Map<String, Value>,
) -> Result<(), Error> {
    let hardware = context.require_hardware()?;
    InterfaceConfig::parse(config)?.refuse_dhcp()?;
    is_isolated(hardware, vf)?;
    let function = ObservedVf::get(hardware, vf.device)?;
    match VfLease::load(context.root, vf.device)?.filter(|lease| lease.owner != *owner) {
        Some(lease) if lease.owner.is_alive(context.root)? => {
            Err(Error::FunctionInUse { function: vf.device, container: lease.owner.container })
        }
        // The previous owner is gone. The setup restores the function first, so its current state does not
        // matter.
        Some(_) => Ok(()),
        None => check_usable(hardware, vf, &function),
    }
}

/// Whether the RDMA device is moved into the pod's namespace. Fails if that is requested but the node's RDMA
/// mode is shared.
pub(super) fn is_isolated(hardware: &dyn Hardware, vf: &IbSriovConfig) -> Result<bool, Error> {
    let exclusive = || Ok::<_, Error>(hardware.rdma_netns_mode()? == NetnsMode::Exclusive);
    match vf.isolation {
        Some(true) if !exclusive()? => Err(Error::SharedRdma),
        Some(isolated) => Ok(isolated),
        None => Ok(exclusive().unwrap_or(false)),
    }
}

/// Fail if the function's driver, link layer or GUID does not fit `vf`.
pub(super) fn check_usable(
    hardware: &dyn Hardware,
    vf: &IbSriovConfig,
    function: &ObservedVf,
) -> Result<(), Error> {
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
        let interface = super::interface::find_interface(hardware, device, None)?;
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
