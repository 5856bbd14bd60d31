//! Plans the changes to one virtual function. Does no I/O.

use super::{
    ObservedAdapter, ObservedFunction,
    want::{DesiredAdapter, DesiredVfGroup},
};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use std::fmt;

/// Kernel drivers that let user-space programs access a function directly.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Changes to a virtual function, in the order in which they are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfChanges {
    pub pci: PciAddress,
    pub index: u32,
    /// Set this GUID before the driver binds.
    pub guid: Option<Guid>,
    /// Set the link state to auto, so that it follows the adapter's port.
    pub set_link_auto: bool,
    /// Unbind the current driver and bind this one.
    pub rebind: Option<VfDriver>,
    /// Set the MTU of an interface of the function. The tuple contains the interface name and the MTU.
    pub mtu: Option<(String, u32)>,
}

/// The driver to bind to a virtual function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VfDriver {
    /// The kernel's network driver.
    Kernel,
    Vfio,
}

impl VfChanges {
    /// Whether the changes interrupt a pod that holds the function.
    pub fn is_disruptive(&self) -> bool {
        self.rebind.is_some() || self.guid.is_some()
    }
}

/// Names what is changed, for messages: `GUID 02:…, MTU 4092`.
impl fmt::Display for VfChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = match self.rebind {
            // A new GUID takes effect when the same driver is bound again.
            Some(VfDriver::Kernel) if self.guid.is_none() => Some("the kernel's network driver".to_owned()),
            Some(VfDriver::Vfio) => Some("driver vfio-pci".to_owned()),
            _ => None,
        };
        let guid = self.guid.map(|guid| format!("GUID {guid}"));
        let mtu = self.mtu.as_ref().map(|(_, mtu)| format!("MTU {mtu}"));
        let all: Vec<_> = guid.into_iter().chain(driver).chain(mtu).collect();
        f.write_str(&all.join(", "))
    }
}

/// Plans the changes to one function. Returns `None` if it is configured as desired. `guid` returns its desired
/// GUID.
pub fn plan_vf(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guid: impl FnOnce() -> Result<Guid, Fault>,
) -> Result<Option<VfChanges>, Fault> {
    if let Some(error) = &vf.error {
        return Err(unreadable_fault(format!("virtual function {}", vf.pci), error));
    }
    let mut changes =
        VfChanges { pci: vf.pci, index: vf.index, guid: None, set_link_auto: false, rebind: None, mtu: None };
    let bound = vf.driver.as_deref();
    if group.vfio {
        if bound != Some("vfio-pci") {
            if !vf.has_iommu_group && vf.driver.is_some() {
                return Err(no_iommu_fault(vf.pci));
            }
            changes.rebind = Some(VfDriver::Vfio);
        }
        return Ok(changes.rebind.is_some().then_some(changes));
    }
    if bound.is_none_or(|driver| USER_SPACE_DRIVERS.contains(&driver)) {
        changes.rebind = Some(VfDriver::Kernel);
    }
    if adapter.link_layer == Some(LinkLayer::InfiniBand) {
        let current = vf.current_guid();
        let is_kept = vf.guid_requested || desired.externally_managed && current.is_some();
        if !is_kept {
            let desired_guid = guid()?;
            let assigned = vf.assigned.and_then(|(guid, _)| guid);
            // `assigned` is `None` if the adapter has no interface. Then only the GUID of the RDMA device is
            // compared.
            if current != Some(desired_guid) || assigned.is_some_and(|assigned| assigned != desired_guid) {
                changes.guid = Some(desired_guid);
                changes.rebind = Some(VfDriver::Kernel);
            }
        }
        changes.set_link_auto =
            changes.guid.is_some() && vf.assigned.is_some_and(|(_, state)| state != Some(VfLinkState::Auto));
    }
    let mtu = group.mtu.zip(vf.interface.as_ref()).filter(|(mtu, (_, current))| mtu != current);
    changes.mtu = mtu.map(|(mtu, (name, _))| (name.clone(), mtu));
    let matches = !changes.is_disruptive() && changes.mtu.is_none();
    Ok((!matches).then_some(changes))
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
