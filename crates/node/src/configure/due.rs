//! Plans the changes to an adapter and its virtual functions. Does no I/O.

use super::{
    GuidSource, ObservedAdapter, ObservedFunction, PfIdentity,
    record::AdapterOriginalState,
    want::{DesiredAdapter, DesiredVfGroup},
};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use std::collections::BTreeSet;

/// Kernel drivers that let user-space programs access a function directly.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Changes to an adapter, in the order in which they are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterChanges {
    /// Save this as the original state, before the first change.
    pub original_state: Option<AdapterOriginalState>,
    /// Remove all virtual functions and create this many.
    pub vf_count: Option<u16>,
    /// Change individual virtual functions.
    pub vfs: Vec<VfChanges>,
    /// Set the MTU of the adapter's interface.
    pub mtu: Option<u32>,
    /// Set the adapter's interface up (`true`) or down.
    pub up: Option<bool>,
    /// Remove the saved original state, because nothing is left to restore.
    pub remove_original_state: bool,
    /// Virtual functions that no pod may hold during the change.
    pub disrupted_vfs: BTreeSet<PciAddress>,
}

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

impl AdapterChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Plans the changes to `adapter`. `desired` is `None` if no policy selects it, `original` is `None` if Ferroband
/// has not changed it, and `held` are the functions that pods hold.
pub fn plan_changes(
    desired: Option<&DesiredAdapter>,
    adapter: &ObservedAdapter,
    original: Option<&AdapterOriginalState>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<AdapterChanges, Fault> {
    match (desired, original) {
        // No policy selects the adapter, and Ferroband has not changed it.
        (None, None) => Ok(AdapterChanges::default()),
        (None, Some(original)) => Ok(plan_restore(adapter, original)),
        (Some(desired), _) => plan_desired(desired, adapter, original, guids, held),
    }
}

/// Plans the next step back to the original state: the number of functions first, then MTU and link state,
/// and finally the removal of the saved original state.
fn plan_restore(adapter: &ObservedAdapter, original: &AdapterOriginalState) -> AdapterChanges {
    let mut changes = AdapterChanges::default();
    let current_count = vf_count(adapter);
    if !original.external && current_count != original.vfs {
        changes.vf_count = Some(original.vfs);
        changes.disrupted_vfs = adapter.vfs.iter().map(|vf| vf.pci).collect();
        return changes;
    }
    if !original.external
        && let Some(interface) = &adapter.interface
    {
        changes.mtu = original.mtu.filter(|mtu| *mtu != interface.mtu);
        changes.up = original.up.filter(|up| *up != interface.up);
    }
    changes.remove_original_state = changes.mtu.is_none() && changes.up.is_none();
    changes
}

fn plan_desired(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    original: Option<&AdapterOriginalState>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<AdapterChanges, Fault> {
    let mut changes = AdapterChanges {
        original_state: original
            .is_none()
            .then(|| AdapterOriginalState::capture(adapter, desired.externally_managed)),
        ..AdapterChanges::default()
    };
    let current_count = vf_count(adapter);
    if desired.externally_managed {
        check_external(desired, adapter, current_count)?;
    } else if desired.vf_count > current_count {
        if desired.vf_count > adapter.total_vfs {
            return Err(too_many_vfs_fault(desired, adapter));
        }
        changes.vf_count = Some(desired.vf_count);
        changes.disrupted_vfs = adapter.vfs.iter().map(|vf| vf.pci).collect();
        // The functions will be recreated. The next round configures them.
        return Ok(changes);
    }
    let pf = PfIdentity { pci: adapter.pci, guid: adapter.guid };
    for vf in &adapter.vfs {
        let Some(group) = desired.groups.iter().find(|group| group.vf_range.contains(&vf.index)) else {
            continue;
        };
        let vf_changes = plan_vf(desired, adapter, vf, group, || guids.guid(pf, vf.index))?;
        // The workload of a pod may unbind the driver of its function for a moment. That is no reason to drain the
        // pod.
        if let Some(vf_changes) = vf_changes
            && !(held.contains(&vf.pci) && vf.driver.is_none())
        {
            if vf_changes.rebind.is_some() || vf_changes.guid.is_some() {
                changes.disrupted_vfs.insert(vf.pci);
            }
            changes.vfs.push(vf_changes);
        }
    }
    if let Some(interface) = adapter.interface.as_ref().filter(|_| !desired.externally_managed) {
        // The MTU is never lowered, because an administrator may have set a higher one.
        changes.mtu = desired.mtu.filter(|mtu| *mtu > interface.mtu);
        changes.up = (!interface.up).then_some(true);
    }
    // The original state is saved even if nothing else changes, because Ferroband manages the adapter from now on.
    Ok(changes)
}

/// Plans the changes to one function. Returns `None` if it is configured as desired. `guid` returns its desired
/// GUID.
fn plan_vf(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guid: impl FnOnce() -> Result<Guid, Fault>,
) -> Result<Option<VfChanges>, Fault> {
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
    if desired.link_layer.or(adapter.link_layer) == Some(LinkLayer::InfiniBand)
        && adapter.link_layer == Some(LinkLayer::InfiniBand)
    {
        let assigned = vf.assigned.and_then(|(guid, _)| guid);
        // While the RDMA device is in a pod, only the GUID assigned through the adapter is visible.
        let current = vf.guid.or(assigned).filter(|guid| !guid.is_unset());
        if !(desired.externally_managed && current.is_some()) {
            let desired_guid = guid()?;
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
    let matches = changes.guid.is_none() && changes.rebind.is_none() && changes.mtu.is_none();
    Ok((!matches).then_some(changes))
}

/// Whether the driver and the GUID of a function are as desired, so that it may be advertised.
pub fn is_vf_ready(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guids: &dyn GuidSource,
) -> bool {
    let pf = PfIdentity { pci: adapter.pci, guid: adapter.guid };
    let changes = plan_vf(desired, adapter, vf, group, || guids.guid(pf, vf.index));
    changes
        .is_ok_and(|changes| changes.is_none_or(|changes| changes.rebind.is_none() && changes.guid.is_none()))
}

fn vf_count(adapter: &ObservedAdapter) -> u16 {
    u16::try_from(adapter.vfs.len()).unwrap_or(u16::MAX)
}

fn too_many_vfs_fault(desired: &DesiredAdapter, adapter: &ObservedAdapter) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {}", adapter.pci),
        format!(
            "{} virtual functions requested, but sriov_totalvfs is {}",
            desired.vf_count, adapter.total_vfs
        ),
        "lower numVfs in the policy, or raise NUM_OF_VFS in the firmware",
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

fn check_external(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    current_count: u16,
) -> Result<(), Fault> {
    let fault = |cause: String| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("adapter {}", adapter.pci),
            cause,
            "the adapter is externallyManaged: configure it by other means, or change the policy",
        )
    };
    if desired.vf_count > current_count {
        return Err(fault(format!(
            "{} virtual functions requested, but the adapter has {current_count}",
            desired.vf_count
        )));
    }
    if let (Some(mtu), Some(interface)) = (desired.mtu, &adapter.interface)
        && mtu > interface.mtu
    {
        return Err(fault(format!("MTU {mtu} requested, but the interface has {}", interface.mtu)));
    }
    if let (Some(requested), Some(link)) = (desired.link_layer, adapter.link_layer)
        && requested != link
    {
        return Err(fault(format!("link type {requested} requested, but the port is {link}")));
    }
    Ok(())
}
