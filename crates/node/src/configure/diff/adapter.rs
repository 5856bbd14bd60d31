//! Plans the changes to an adapter and its virtual functions.

use super::vf::{plan_vf, unreadable_fault};
use crate::configure::{Action, AdapterOriginalState, DesiredAdapter, DesiredGuids, ObservedAdapter};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::collections::BTreeSet;

/// The planned changes to an adapter, and what can be said about its functions before they are applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterPlan {
    /// In the order in which they are applied.
    pub actions: Vec<Action>,
    /// Virtual functions that no pod may hold during the change.
    pub disrupted_vfs: BTreeSet<PciAddress>,
    /// Functions whose driver and GUID are as desired, so that they may be advertised.
    pub ready_vfs: BTreeSet<PciAddress>,
    /// Why the adapter or some of its functions cannot be configured. The others are.
    pub faults: Vec<Fault>,
}

/// Plans the changes to `adapter`. `desired` is `None` if no policy selects it, and `original` is `None` if Ferroband
/// has not changed it. `can_change_firmware` is whether the link type and the maximum number of functions are set in
/// the firmware, which reports its own faults.
pub fn plan_adapter(
    desired: Option<&DesiredAdapter>,
    adapter: &ObservedAdapter,
    original: Option<&AdapterOriginalState>,
    guids: &DesiredGuids,
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
        (None, Some(original), None) => plan_restore(adapter, original),
        (Some(desired), _, None) => {
            plan_desired(desired, adapter, original.is_some(), guids, can_change_firmware)
        }
    }
}

/// Plans the next step back to the original state: the number of functions first, then MTU and link state,
/// and finally the removal of the saved original state.
fn plan_restore(adapter: &ObservedAdapter, original: &AdapterOriginalState) -> AdapterPlan {
    let pf = adapter.pci;
    if !original.external && vf_count(adapter) != original.vfs {
        return plan_reset(adapter, original.vfs);
    }
    let mut actions = Vec::new();
    if !original.external
        && let Some(interface) = &adapter.interface
    {
        let mtu = original.mtu.filter(|mtu| *mtu != interface.mtu);
        actions.extend(mtu.map(|mtu| Action::SetMtu { pf, mtu }));
        let up = original.up.filter(|up| *up != interface.up);
        actions.extend(up.map(|up| Action::SetLink { pf, up }));
    }
    if actions.is_empty() {
        actions.push(Action::RemoveOriginalState { pf });
    }
    AdapterPlan { actions, ..AdapterPlan::default() }
}

/// Removes all functions and creates `count`. The next round configures them.
fn plan_reset(adapter: &ObservedAdapter, count: u16) -> AdapterPlan {
    AdapterPlan {
        actions: vec![Action::SetVfCount { pf: adapter.pci, count }],
        disrupted_vfs: adapter.vfs.iter().map(|vf| vf.pci).collect(),
        ..AdapterPlan::default()
    }
}

fn plan_desired(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    is_managed: bool,
    guids: &DesiredGuids,
    can_change_firmware: bool,
) -> AdapterPlan {
    let mut plan = AdapterPlan::default();
    let pf = adapter.pci;
    if let Some(fault) = link_type_fault(desired, adapter) {
        // The functions of a port with the wrong link type are useless, and a reboot removes them.
        plan.faults.extend((!can_change_firmware || desired.externally_managed).then_some(fault));
    } else if !desired.externally_managed
        && desired.vf_count > vf_count(adapter)
        && desired.vf_count <= adapter.total_vfs
    {
        plan = plan_reset(adapter, desired.vf_count);
    } else {
        if desired.externally_managed {
            plan.faults.extend(check_external(desired, adapter));
        } else if desired.vf_count > adapter.total_vfs && !can_change_firmware {
            plan.faults.push(too_many_vfs_fault(desired, adapter));
        }
        plan_vfs(desired, adapter, guids, &mut plan);
        if let Some(interface) = adapter.interface.as_ref().filter(|_| !desired.externally_managed) {
            // The MTU is never lowered, because an administrator may have set a higher one.
            let mtu = desired.mtu.filter(|mtu| *mtu > interface.mtu);
            plan.actions.extend(mtu.map(|mtu| Action::SetMtu { pf, mtu }));
            plan.actions.extend((!interface.up).then_some(Action::SetLink { pf, up: true }));
        }
    }
    if !is_managed {
        // The original state is saved even if nothing else changes, because Ferroband manages the adapter from now
        // on.
        let state = AdapterOriginalState::capture(adapter, desired.externally_managed);
        plan.actions.insert(0, Action::SaveOriginalState { pf, state });
    }
    plan
}

fn plan_vfs(
    desired: &DesiredAdapter,
    adapter: &ObservedAdapter,
    guids: &DesiredGuids,
    plan: &mut AdapterPlan,
) {
    let mut faults = Vec::new();
    for vf in &adapter.vfs {
        let Some(group) = desired.group_of(vf.index) else { continue };
        match plan_vf(adapter.pci, vf, group, guids) {
            Ok(actions) => {
                let disrupted = actions.iter().any(Action::is_disruptive);
                let set = if disrupted { &mut plan.disrupted_vfs } else { &mut plan.ready_vfs };
                set.insert(vf.pci);
                plan.actions.extend(actions);
            }
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

fn check_external(desired: &DesiredAdapter, adapter: &ObservedAdapter) -> Option<Fault> {
    let current_count = vf_count(adapter);
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
