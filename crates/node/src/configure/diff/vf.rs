//! Plans the changes to one virtual function.

use crate::configure::{Action, DesiredGuids, DesiredVfGroup, ObservedFunction, VfDriver};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Fault, FaultCode, PciAddress};

/// Kernel drivers that let user-space programs access a function directly.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Plans the changes to one function. Returns no action if it is configured as desired.
pub fn plan_vf(
    pf: PciAddress,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guids: &DesiredGuids,
) -> Result<Vec<Action>, Fault> {
    if let Some(error) = &vf.error {
        return Err(unreadable_fault(format!("virtual function {}", vf.pci), error));
    }
    let bind = |driver| Action::BindVfDriver { pf, vf: vf.pci, driver };
    let bound = vf.driver.as_deref();
    if group.vfio {
        if bound == Some("vfio-pci") {
            return Ok(Vec::new());
        }
        if !vf.has_iommu_group && vf.driver.is_some() {
            return Err(no_iommu_fault(vf.pci));
        }
        return Ok(vec![bind(VfDriver::Vfio)]);
    }
    let mut actions = Vec::new();
    if let Some(guid) = guids.of_vfs.get(&vf.pci) {
        let guid = guid.clone()?;
        // `assigned` is `None` if the adapter has no interface. Then only the GUID of the RDMA device is compared.
        let assigned = vf.assigned.and_then(|(guid, _)| guid);
        if vf.current_guid() != Some(guid) || assigned.is_some_and(|assigned| assigned != guid) {
            let link_auto = vf.assigned.is_some_and(|(_, state)| state != Some(VfLinkState::Auto));
            actions.push(Action::SetVfGuid { pf, vf: vf.pci, index: vf.index, guid, link_auto });
        }
    }
    if actions.is_empty() && bound.is_none_or(|driver| USER_SPACE_DRIVERS.contains(&driver)) {
        actions.push(bind(VfDriver::Kernel));
    }
    let mtu = group.mtu.zip(vf.interface.clone()).filter(|(mtu, (_, current))| mtu != current);
    actions.extend(mtu.map(|(mtu, (interface, _))| Action::SetVfMtu { pf, vf: vf.pci, interface, mtu }));
    Ok(actions)
}

/// The fault of a device whose attributes the kernel cannot read.
pub fn unreadable_fault(thing: String, error: &str) -> Fault {
    Fault::new(
        FaultCode::KernelRefused,
        thing,
        format!("the RDMA device cannot be read: {error}"),
        "look for errors of the adapter in the kernel log; reset the adapter, or reboot the node",
    )
}

fn no_iommu_fault(pci: PciAddress) -> Fault {
    Fault::new(
        FaultCode::KernelRefused,
        format!("virtual function {pci}"),
        "the function has no IOMMU group, so vfio-pci cannot bind it",
        "enable the IOMMU in the BIOS, and with intel_iommu=on or iommu=pt on the kernel command line",
    )
}
