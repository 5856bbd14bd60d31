//! CHECK: does the sandbox still have what it was given?

use super::check::isolated;
use super::{Function, Held, interface};
use crate::plan::VfStep;
use crate::{Error, Machine};
use ferroband_kernel::Netns;
use ferroband_model::Guid;

/// Fail if the function of `vf` is not as it was given.
pub(crate) fn verify(
    machine: &Machine<'_>,
    stem: &str,
    vf: &VfStep,
    netns: &Netns,
    ifname: &str,
) -> Result<(), Error> {
    let hardware = machine.adapters()?;
    let changed = |what: &'static str| Error::FunctionChanged { function: vf.device, what };
    let held = Held::load(machine.root, vf.device)?.filter(|held| held.owner.stem == stem);
    let held = held.ok_or_else(|| changed("it belongs to another sandbox"))?;
    let function = Function::get(hardware, vf.device)?;
    if vf.guid.is_some() || vf.link_state.is_some() {
        let now = function.settings(hardware)?;
        let has = |guid: Guid| (now.node_guid, now.port_guid) == (Some(guid), Some(guid));
        if vf.guid.is_some_and(|guid| !has(guid)) {
            return Err(changed("it has another GUID"));
        }
        if vf.link_state.is_some_and(|state| now.state.is_some_and(|now| now != state)) {
            return Err(changed("it has another link state"));
        }
    }
    if held.vfio {
        return Ok(());
    }
    if isolated(hardware, vf)?
        && let Some(device) = &held.rdma
        && !hardware.rdma_devices(Some(netns))?.iter().any(|one| one.name == *device)
    {
        return Err(changed("its RDMA device is not in the sandbox"));
    }
    match interface::inside(hardware, vf.device, netns)? {
        Some(link) if link.name == ifname => Ok(()),
        Some(_) => Err(changed("its interface has another name")),
        None => Err(changed("its interface is not in the sandbox")),
    }
}
