//! Plans the changes to an adapter and its virtual functions. Does no I/O.

use super::{
    ObservedAdapter, PfIdentity,
    guids::PassGuids,
    record::AdapterOriginalState,
    vf_plan::{VfChanges, plan_vf, unreadable_fault},
    want::DesiredAdapter,
};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::collections::BTreeSet;

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

impl AdapterChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the change removes all functions of the adapter, so that pods which hold one must be drained first.
    pub fn resets_adapter(&self) -> bool {
        self.vf_count.is_some()
    }

    /// Removes and returns the changes to individual functions for which `is_held` is true. A function in use is
    /// never changed.
    pub fn take_held(&mut self, is_held: impl Fn(PciAddress) -> bool) -> Vec<VfChanges> {
        if self.resets_adapter() {
            return Vec::new();
        }
        let (held, free) = std::mem::take(&mut self.vfs).into_iter().partition(|vf| is_held(vf.pci));
        self.vfs = free;
        self.disrupted_vfs.retain(|pci| !is_held(*pci));
        held
    }
}

/// The planned changes to an adapter, and what can be said about its functions before they are applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterPlan {
    pub changes: AdapterChanges,
    /// Functions whose driver and GUID are as desired, so that they may be advertised.
    pub ready_vfs: BTreeSet<PciAddress>,
    /// Why the adapter or some of its functions cannot be configured. The others are.
    pub faults: Vec<Fault>,
}

/// Plans the changes to `adapter`. `desired` is `None` if no policy selects it, and `original` is `None` if Ferroband
/// has not changed it. `can_change_firmware` is whether the link type and the maximum number of functions are set in
/// the firmware, which reports its own faults.
pub fn plan_changes(
    desired: Option<&DesiredAdapter>,
    adapter: &ObservedAdapter,
    original: Option<&AdapterOriginalState>,
    guids: &PassGuids<'_>,
    can_change_firmware: bool,
) -> AdapterPlan {
    match (desired, original, &adapter.error) {
        // No policy selects the adapter, and Ferroband has not changed it.
        (None, None, _) => AdapterPlan::default(),
        // Without the adapter's GUID and link layer, the desired state of its functions is not known. The functions
        // stay in their pools, where they are unhealthy.
        (_, _, Some(error)) => {
            let faults = vec![unreadable_fault(format!("adapter {}", adapter.pci), error)];
            let bound = adapter.vfs.iter().filter(|vf| vf.driver.is_some());
            AdapterPlan { faults, ready_vfs: bound.map(|vf| vf.pci).collect(), ..AdapterPlan::default() }
        }
        (None, Some(original), None) => {
            AdapterPlan { changes: plan_restore(adapter, original), ..AdapterPlan::default() }
        }
        (Some(desired), _, None) => plan_desired(desired, adapter, original, guids, can_change_firmware),
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
    guids: &PassGuids<'_>,
    can_change_firmware: bool,
) -> AdapterPlan {
    let mut plan = AdapterPlan::default();
    // The original state is saved even if nothing else changes, because Ferroband manages the adapter from now on.
    let captured =
        original.is_none().then(|| AdapterOriginalState::capture(adapter, desired.externally_managed));
    plan.changes.original_state.clone_from(&captured);
    if let Some(fault) = link_type_fault(desired, adapter) {
        // The functions of a port with the wrong link type are useless, and a reboot removes them.
        plan.faults.extend((!can_change_firmware || desired.externally_managed).then_some(fault));
        return plan;
    }
    let current_count = vf_count(adapter);
    if desired.externally_managed {
        plan.faults.extend(check_external(desired, adapter, current_count));
    } else if desired.vf_count > adapter.total_vfs {
        plan.faults.extend((!can_change_firmware).then(|| too_many_vfs_fault(desired, adapter)));
    } else if desired.vf_count > current_count {
        plan.changes.vf_count = Some(desired.vf_count);
        plan.changes.disrupted_vfs = adapter.vfs.iter().map(|vf| vf.pci).collect();
        // The functions will be recreated. The next round configures them.
        return plan;
    }
    plan_vfs(desired, adapter, original.or(captured.as_ref()), guids, &mut plan);
    if let Some(interface) = adapter.interface.as_ref().filter(|_| !desired.externally_managed) {
        // The MTU is never lowered, because an administrator may have set a higher one.
        plan.changes.mtu = desired.mtu.filter(|mtu| *mtu > interface.mtu);
        plan.changes.up = (!interface.up).then_some(true);
    }
    plan
}

fn plan_vfs(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    original: Option<&AdapterOriginalState>,
    guids: &PassGuids<'_>,
    plan: &mut AdapterPlan,
) {
    let pf = PfIdentity { pci: adapter.pci, guid: adapter.guid };
    let mut faults = Vec::new();
    for vf in &adapter.vfs {
        let Some(group) = desired.groups.iter().find(|group| group.vf_range.contains(&vf.index)) else {
            continue;
        };
        let adopted = original.and_then(|original| original.guids.get(&vf.index).copied());
        let guid = || guids.guid(pf, vf.index, adopted, vf.current_guid());
        match plan_vf(desired, adapter, vf, group, guid) {
            Ok(Some(vf_changes)) => {
                if vf_changes.is_disruptive() {
                    plan.changes.disrupted_vfs.insert(vf.pci);
                } else {
                    plan.ready_vfs.insert(vf.pci);
                }
                plan.changes.vfs.push(vf_changes);
            }
            Ok(None) => drop(plan.ready_vfs.insert(vf.pci)),
            Err(fault) => {
                // A function that cannot be read stays in its pool, where it is unhealthy.
                plan.ready_vfs.extend((vf.error.is_some() && vf.driver.is_some()).then_some(vf.pci));
                faults.push((vf.index, fault));
            }
        }
    }
    plan.faults.extend(merge_vf_faults(adapter.pci, faults));
}

/// Merges the faults of functions that have the same remedy, because a GUID range that is too small affects many
/// functions. The merged fault has the cause of the first function and the numbers of all.
fn merge_vf_faults(pf: PciAddress, faults: Vec<(u32, Fault)>) -> Vec<Fault> {
    let mut merged: Vec<(Vec<String>, Fault)> = Vec::new();
    for (index, fault) in faults {
        let same = |other: &Fault| (other.code, &other.remedy) == (fault.code, &fault.remedy);
        match merged.iter_mut().find(|(_, other)| same(other)) {
            Some((indexes, _)) => indexes.push(index.to_string()),
            None => merged.push((vec![index.to_string()], fault)),
        }
    }
    let fault = |(indexes, fault): (Vec<String>, Fault)| {
        let thing = format!("virtual functions {} of adapter {pf}", indexes.join(", "));
        Fault::new(fault.code, thing, format!("{}: {}", fault.what, fault.cause), fault.remedy)
    };
    merged.into_iter().map(fault).collect()
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

/// Returns a fault if the port has another link type than requested.
fn link_type_fault(desired: &DesiredAdapter, adapter: &ObservedAdapter) -> Option<Fault> {
    let (requested, current) = desired.link_layer.zip(adapter.link_layer)?;
    let remedy = if desired.externally_managed {
        "the adapter is externallyManaged: configure it by other means, or change the policy"
    } else {
        "set LINK_TYPE in the adapter's firmware and reboot the node, or change linkType in the policy"
    };
    let cause = format!("link type {requested} requested, but the port is {current}");
    (requested != current)
        .then(|| Fault::new(FaultCode::InvalidConfig, format!("adapter {}", adapter.pci), cause, remedy))
}

fn check_external(desired: &DesiredAdapter, adapter: &ObservedAdapter, current_count: u16) -> Option<Fault> {
    let fault = |cause: String| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("adapter {}", adapter.pci),
            cause,
            "the adapter is externallyManaged: configure it by other means, or change the policy",
        )
    };
    if desired.vf_count > current_count {
        return Some(fault(format!(
            "{} virtual functions requested, but the adapter has {current_count}",
            desired.vf_count
        )));
    }
    let (mtu, interface) = desired.mtu.zip(adapter.interface.as_ref())?;
    (mtu > interface.mtu)
        .then(|| fault(format!("MTU {mtu} requested, but the interface has {}", interface.mtu)))
}
