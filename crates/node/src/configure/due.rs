//! What is to be done to an adapter. Pure.

use super::{
    GuidSource, ObservedAdapter, ObservedFunction, PfIdentity,
    record::AdapterOriginalState,
    want::{DesiredAdapter, DesiredVfGroup},
};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use std::collections::BTreeSet;

/// Drivers that hand a function to user space.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// What is to be done to an adapter, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterChanges {
    /// Write down what it was like.
    pub original_state: Option<AdapterOriginalState>,
    /// Have so many functions, by way of none.
    pub vf_count: Option<u16>,
    /// Put functions in order.
    pub vfs: Vec<VfChanges>,
    /// Give its interface this MTU.
    pub mtu: Option<u32>,
    /// Bring its interface up, or take it down.
    pub up: Option<bool>,
    /// All is as it was before us: forget it.
    pub remove_original_state: bool,
    /// The functions that nobody may hold meanwhile.
    pub disrupted_vfs: BTreeSet<PciAddress>,
}

/// What is to be done to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfChanges {
    /// Where it is.
    pub pci: PciAddress,
    /// Its number.
    pub index: u32,
    /// Give it this GUID, before its driver.
    pub guid: Option<Guid>,
    /// Let its link follow the adapter's.
    pub set_link_auto: bool,
    /// Take its driver and give it one.
    pub rebind: Option<VfDriver>,
    /// Give its interface, of this name, this MTU.
    pub mtu: Option<(String, u32)>,
}

/// Whom a function is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VfDriver {
    /// The kernel's.
    Kernel,
    /// vfio-pci.
    Vfio,
}

impl AdapterChanges {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is to be done to the adapter `seen`. `held` are the functions that pods have.
pub fn plan_changes(
    want: Option<&DesiredAdapter>,
    seen: &ObservedAdapter,
    record: Option<&AdapterOriginalState>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<AdapterChanges, Fault> {
    match (want, record) {
        // Nobody selects it, and it is as somebody else left it.
        (None, None) => Ok(AdapterChanges::default()),
        (None, Some(record)) => Ok(plan_restore(seen, record)),
        (Some(want), _) => plan_desired(want, seen, record, guids, held),
    }
}

/// Back to what was before.
fn plan_restore(seen: &ObservedAdapter, record: &AdapterOriginalState) -> AdapterChanges {
    let mut due = AdapterChanges::default();
    let now = vf_count(seen);
    if !record.external && now != record.vfs {
        due.vf_count = Some(record.vfs);
        due.disrupted_vfs = seen.vfs.iter().map(|vf| vf.pci).collect();
        return due;
    }
    if !record.external
        && let Some(interface) = &seen.interface
    {
        due.mtu = record.mtu.filter(|mtu| *mtu != interface.mtu);
        due.up = record.up.filter(|up| *up != interface.up);
    }
    due.remove_original_state = due.mtu.is_none() && due.up.is_none();
    due
}

fn plan_desired(
    want: &DesiredAdapter,
    seen: &ObservedAdapter,
    record: Option<&AdapterOriginalState>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<AdapterChanges, Fault> {
    let mut due = AdapterChanges {
        original_state: record
            .is_none()
            .then(|| AdapterOriginalState::capture(seen, want.externally_managed)),
        ..AdapterChanges::default()
    };
    let now = vf_count(seen);
    if want.externally_managed {
        check_external(want, seen, now)?;
    } else if want.vf_count > now {
        if want.vf_count > seen.total_vfs {
            return Err(too_many_vfs_fault(want, seen));
        }
        due.vf_count = Some(want.vf_count);
        due.disrupted_vfs = seen.vfs.iter().map(|vf| vf.pci).collect();
        // The functions will be others.
        return Ok(due);
    }
    let pf = PfIdentity { pci: seen.pci, guid: seen.guid };
    for vf in &seen.vfs {
        let Some(group) = want.groups.iter().find(|group| group.vf_range.contains(&vf.index)) else {
            continue;
        };
        let wanted = plan_vf(want, seen, vf, group, || guids.guid(pf, vf.index))?;
        // A driver that is away for a moment, under a pod, is that pod's business.
        if let Some(wanted) = wanted
            && !(held.contains(&vf.pci) && vf.driver.is_none())
        {
            if wanted.rebind.is_some() || wanted.guid.is_some() {
                due.disrupted_vfs.insert(vf.pci);
            }
            due.vfs.push(wanted);
        }
    }
    if let Some(interface) = seen.interface.as_ref().filter(|_| !want.externally_managed) {
        // Never lowered: others may have set it.
        due.mtu = want.mtu.filter(|mtu| *mtu > interface.mtu);
        due.up = (!interface.up).then_some(true);
    }
    // Nothing to do yet, but it is ours from now on.
    Ok(due)
}

/// What is to be done to one function; nothing if it is right.
fn plan_vf(
    want: &DesiredAdapter,
    seen: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guid: impl FnOnce() -> Result<Guid, Fault>,
) -> Result<Option<VfChanges>, Fault> {
    let mut due =
        VfChanges { pci: vf.pci, index: vf.index, guid: None, set_link_auto: false, rebind: None, mtu: None };
    let bound = vf.driver.as_deref();
    if group.vfio {
        if bound != Some("vfio-pci") {
            if !vf.has_iommu_group && vf.driver.is_some() {
                return Err(no_iommu_fault(vf.pci));
            }
            due.rebind = Some(VfDriver::Vfio);
        }
        return Ok(due.rebind.is_some().then_some(due));
    }
    if bound.is_none_or(|driver| USER_SPACE_DRIVERS.contains(&driver)) {
        due.rebind = Some(VfDriver::Kernel);
    }
    if want.link_layer.or(seen.link_layer) == Some(LinkLayer::InfiniBand)
        && seen.link_layer == Some(LinkLayer::InfiniBand)
    {
        let given = vf.assigned.and_then(|(guid, _)| guid);
        // Moved into a pod, its device is out of sight, and what it was given tells.
        let has = vf.guid.or(given).filter(|guid| !guid.is_unset());
        if !(want.externally_managed && has.is_some()) {
            let wanted = guid()?;
            // What was given cannot be asked for without an interface of the adapter.
            if has != Some(wanted) || given.is_some_and(|given| given != wanted) {
                due.guid = Some(wanted);
                due.rebind = Some(VfDriver::Kernel);
            }
        }
        due.set_link_auto =
            due.guid.is_some() && vf.assigned.is_some_and(|(_, state)| state != Some(VfLinkState::Auto));
    }
    let mtu = group.mtu.zip(vf.interface.as_ref()).filter(|(mtu, (_, now))| mtu != now);
    due.mtu = mtu.map(|(mtu, (name, _))| (name.clone(), mtu));
    let right = due.guid.is_none() && due.rebind.is_none() && due.mtu.is_none();
    Ok((!right).then_some(due))
}

/// Whether a function is as its group wants it, so that it may be given out.
pub fn is_vf_ready(
    want: &DesiredAdapter,
    seen: &ObservedAdapter,
    vf: &ObservedFunction,
    group: &DesiredVfGroup,
    guids: &dyn GuidSource,
) -> bool {
    let pf = PfIdentity { pci: seen.pci, guid: seen.guid };
    let due = plan_vf(want, seen, vf, group, || guids.guid(pf, vf.index));
    due.is_ok_and(|due| due.is_none_or(|due| due.rebind.is_none() && due.guid.is_none()))
}

fn vf_count(seen: &ObservedAdapter) -> u16 {
    u16::try_from(seen.vfs.len()).unwrap_or(u16::MAX)
}

fn too_many_vfs_fault(want: &DesiredAdapter, seen: &ObservedAdapter) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {}", seen.pci),
        format!("{} virtual functions are wanted, sriov_totalvfs is {}", want.vf_count, seen.total_vfs),
        "lower numVfs of the policy, or raise NUM_OF_VFS of the firmware",
    )
}

fn no_iommu_fault(pci: PciAddress) -> Fault {
    Fault::new(
        FaultCode::KernelRefused,
        format!("virtual function {pci}"),
        "it has no IOMMU group, so vfio-pci cannot take it",
        "switch the IOMMU on: in the BIOS, and with intel_iommu=on or iommu=pt on the kernel's command line",
    )
}

fn check_external(want: &DesiredAdapter, seen: &ObservedAdapter, now: u16) -> Result<(), Fault> {
    let fault = |cause: String| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("adapter {}", seen.pci),
            cause,
            "it is externallyManaged: change it there, or change the policy",
        )
    };
    if want.vf_count > now {
        return Err(fault(format!("{} virtual functions are wanted, there are {now}", want.vf_count)));
    }
    if let (Some(mtu), Some(interface)) = (want.mtu, &seen.interface)
        && mtu > interface.mtu
    {
        return Err(fault(format!("MTU {mtu} is wanted, it has {}", interface.mtu)));
    }
    if let (Some(wanted), Some(link)) = (want.link_layer, seen.link_layer)
        && wanted != link
    {
        return Err(fault(format!("{wanted} is wanted, it speaks {link}")));
    }
    Ok(())
}
