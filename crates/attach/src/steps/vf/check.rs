//! CHECK of an attached function.

use super::preflight::is_isolated;
use super::{ObservedVf, VfLease, interface};
use crate::protocol::{CniContext, Error};
use ferroband_config::IbSriovConfig;
use ferroband_kernel::Netns;
use ferroband_model::Guid;

/// Fail if the function of `vf` is not attached as requested.
pub(crate) fn check_attached(
    context: &CniContext<'_>,
    stem: &str,
    vf: &IbSriovConfig,
    netns: &Netns,
    ifname: &str,
) -> Result<(), Error> {
    let hardware = context.require_hardware()?;
    let changed = |what: &'static str| Error::FunctionChanged { function: vf.device, what };
    let lease = VfLease::load(context.root, vf.device)?.filter(|lease| lease.owner.stem == stem);
    let lease = lease.ok_or_else(|| changed("it belongs to another sandbox"))?;
    let function = ObservedVf::get(hardware, vf.device)?;
    if vf.guid.is_some() || vf.link_state.is_some() {
        let now = function.admin_settings(hardware)?;
        let has = |guid: Guid| (now.node_guid, now.port_guid) == (Some(guid), Some(guid));
        if vf.guid.is_some_and(|guid| !has(guid)) {
            return Err(changed("it has another GUID"));
        }
        if vf.link_state.is_some_and(|state| now.link_state.is_some_and(|now| now != state)) {
            return Err(changed("it has another link state"));
        }
    }
    if lease.vfio_bound {
        return Ok(());
    }
    if is_isolated(hardware, vf)?
        && let Some(device) = &lease.rdma
        && !hardware.rdma_devices(Some(netns))?.iter().any(|one| one.name == *device)
    {
        return Err(changed("its RDMA device is not in the sandbox"));
    }
    match interface::find_interface(hardware, vf.device, Some(netns))? {
        Some(link) if link.name == ifname => Ok(()),
        Some(_) => Err(changed("its interface has another name")),
        None => Err(changed("its interface is not in the sandbox")),
    }
}
