//! Compares the desired configuration with the observed state of the node. Does no I/O.

mod adapter;
mod firmware;
mod rdma_mode;
mod vf;

pub use adapter::{AdapterPlan, plan_adapter};
pub use firmware::cards_to_query;
#[cfg(test)]
pub(super) use firmware::{FirmwarePlan, needs_firmware, plan_firmware};
pub(super) use firmware::{MELLANOX, firmware_fault};

use super::{
    Action, DesiredGuids, DesiredNodeConfig, ObservedNode, Wait, WaitingAction, observe::holders_of,
};
use ferroband_api::sriov::{PendingAction, VfHolder};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::collections::BTreeSet;

/// The difference between the desired and the observed state of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeDiff {
    /// Actions that can run now, in this order.
    pub actions: Vec<Action>,
    /// Actions that cannot run yet.
    pub waiting: Vec<WaitingAction>,
    /// Descriptions of the settings that take effect only after a reboot, for messages.
    pub reboot: Vec<String>,
    /// Whether Ferroband may reboot the node for them.
    pub allow_reboot: bool,
    /// Pods to be drained, because they hold virtual functions of an adapter that must be reset.
    pub holders: Vec<VfHolder>,
    /// Functions whose driver and GUID are as desired, so that they may be advertised.
    pub ready_vfs: BTreeSet<PciAddress>,
    /// Functions that no new pod may get, because an action disrupts them, now or later.
    pub disrupted_vfs: BTreeSet<PciAddress>,
    pub faults: Vec<Fault>,
}

impl NodeDiff {
    /// All actions with what they wait for, as the status lists them.
    pub fn pending(&self) -> Vec<PendingAction> {
        let ready = self.actions.iter().map(|action| action.pending(None));
        let waiting = self.waiting.iter().map(|waiting| waiting.action.pending(Some(&waiting.wait)));
        let reboot = (!self.reboot.is_empty()).then(|| PendingAction {
            target: "node".to_owned(),
            change: format!("reboot for {}", self.reboot.join(", ")),
            waits_for: Some(
                if self.allow_reboot { "drain of the node" } else { "administrator, or allowReboot" }
                    .to_owned(),
            ),
        });
        ready.chain(waiting).chain(reboot).collect()
    }
}

/// Lists the actions that bring the node into the desired configuration. Settings of the node come first, then the
/// adapters by PCI address.
pub fn diff(desired: &DesiredNodeConfig, observed: &ObservedNode, guids: &DesiredGuids) -> NodeDiff {
    let mut diff = NodeDiff {
        faults: desired.faults.clone(),
        allow_reboot: desired.allow_reboot,
        ..NodeDiff::default()
    };
    firmware::diff_firmware(desired, observed, &mut diff);
    rdma_mode::diff_rdma_mode(desired, observed, &mut diff);
    diff.faults.extend(guids.file_fault.clone());
    let mut drained = BTreeSet::new();
    for adapter in &observed.adapters {
        let plan = plan_adapter(
            desired.adapters.get(&adapter.pci),
            adapter,
            observed.original_states.get(&adapter.pci),
            guids,
            adapter.vendor == MELLANOX && !desired.skip_firmware,
        );
        diff.disrupted_vfs.extend(&plan.disrupted_vfs);
        diff.ready_vfs.extend(plan.ready_vfs);
        diff.faults.extend(plan.faults);
        let resets = plan.actions.iter().any(Action::resets_adapter);
        let is_drained =
            resets && !desired.skip_drain && plan.disrupted_vfs.iter().any(|vf| observed.is_held(*vf));
        if is_drained {
            drained.extend(plan.disrupted_vfs);
        }
        for action in plan.actions {
            let wait = match action.vf().filter(|vf| !resets && observed.is_held(*vf)) {
                _ if is_drained => Wait::Drain,
                // A function in use is never changed.
                Some(vf) => Wait::InUse(observed.holders_of_vf(vf)),
                None => {
                    diff.actions.push(action);
                    continue;
                }
            };
            diff.waiting.push(WaitingAction { action, wait });
        }
    }
    diff.faults.extend(missing_adapters(desired, observed));
    diff.holders = observed.holders.as_ref().map(|all| holders_of(all, &drained)).unwrap_or_default();
    diff
}

fn missing_adapters(desired: &DesiredNodeConfig, observed: &ObservedNode) -> impl Iterator<Item = Fault> {
    let is_missing = |pci: &&PciAddress| observed.adapters.iter().all(|adapter| adapter.pci != **pci);
    desired.adapters.keys().filter(is_missing).map(|pci| {
        Fault::new(
            FaultCode::NoDevice,
            format!("adapter {pci}"),
            "a policy selects the adapter, but it is no longer on this node",
            "reinstall the adapter, or delete the policy",
        )
    })
}
