//! Builds the status of this node's SriovNetworkNodeState.

use super::{ConfigurationPass, Wait, WaitingAction};
use ferroband_api::sriov::{
    FAILED, IN_PROGRESS, SUCCEEDED, SriovNetworkNodeState, SriovNetworkNodeStateStatus, SystemState,
};
use ferroband_daemon::condition;
use ferroband_model::{Fault, PciAddress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::collections::BTreeMap;

/// What the node does about the changes that are not applied yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No change is being applied.
    Settled,
    /// Changes are being applied, or a reboot is pending.
    Applying,
    /// Settings take effect only after a reboot, which the administrator must do or allow.
    RebootRequired(Fault),
}

/// Builds the status from the result of a configuration pass. `previous` is the current status, whose condition keeps
/// its transition time if it does not change.
pub fn build_status(
    state: &SriovNetworkNodeState,
    previous: Option<&SriovNetworkNodeStateStatus>,
    pass: &ConfigurationPass,
    failures: &[Fault],
    progress: &Progress,
) -> SriovNetworkNodeStateStatus {
    let faults: Vec<String> = pass.diff.faults.iter().chain(failures).map(ToString::to_string).collect();
    let error = (!faults.is_empty()).then(|| faults.join("; "));
    let (sync, (holds, reason), message) = match (&error, progress) {
        (_, Progress::Applying) => {
            (IN_PROGRESS, (false, "Changing"), "applying the desired configuration".to_owned())
        }
        (Some(error), _) => (FAILED, (false, "Failed"), error.clone()),
        (None, Progress::RebootRequired(fault)) => {
            (IN_PROGRESS, (false, "RebootRequired"), fault.to_string())
        }
        (None, Progress::Settled) if !pass.diff.holders.is_empty() => {
            let names: Vec<_> =
                pass.diff.holders.iter().map(|h| format!("{}/{}", h.namespace, h.name)).collect();
            (
                IN_PROGRESS,
                (false, "WaitingForPods"),
                format!("waiting for these pods to release their virtual functions: {}", names.join(", ")),
            )
        }
        (None, Progress::Settled) => match deferred_message(&pass.diff.waiting) {
            Some(message) => (IN_PROGRESS, (false, "InUse"), message),
            None => (
                SUCCEEDED,
                (true, "AsDesired"),
                "the adapters are configured as the policies require".to_owned(),
            ),
        },
    };
    let generation = state.metadata.generation;
    let conditions = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let configured = Condition {
        observed_generation: generation,
        ..condition(conditions, "Configured", Some(holds), reason, message)
    };
    SriovNetworkNodeStateStatus {
        interfaces: pass.observed.adapters.iter().map(|adapter| adapter.status.clone()).collect(),
        bridges: None,
        system: pass
            .observed
            .rdma_mode
            .map(|mode| SystemState { rdma_mode: Some(mode.to_string()), ..SystemState::default() }),
        sync_status: Some(sync.to_owned()),
        last_sync_error: error,
        observed_generation: generation,
        holders: pass.diff.holders.clone(),
        pending_actions: pass.diff.pending(),
        conditions: vec![configured],
    }
}

/// Lists the changes that wait until a pod releases its function, and the pods. Returns `None` if there are none.
pub fn deferred_message(waiting: &[WaitingAction]) -> Option<String> {
    let mut changes: BTreeMap<PciAddress, (Vec<String>, &Wait)> = BTreeMap::new();
    for WaitingAction { action, wait } in waiting.iter().filter(|w| matches!(w.wait, Wait::InUse(_))) {
        if let Some(vf) = action.vf() {
            changes.entry(vf).or_insert((Vec::new(), wait)).0.push(action.to_string());
        }
    }
    let texts: Vec<_> = changes
        .iter()
        .map(|(vf, (changes, wait))| format!("{vf} ({}; {wait})", changes.join(", ")))
        .collect();
    (!texts.is_empty())
        .then(|| format!("these changes are applied when the pods are gone: {}", texts.join("; ")))
}

/// Whether the difference between two statuses must be written at once. Details of the hardware, such as interfaces
/// that move to and from pods, may wait.
pub fn is_urgent(previous: &SriovNetworkNodeStateStatus, next: &SriovNetworkNodeStateStatus) -> bool {
    let key = |status: &SriovNetworkNodeStateStatus| {
        let counts: Vec<_> = status.interfaces.iter().map(|i| (i.pci_address.clone(), i.num_vfs)).collect();
        let reasons: Vec<_> =
            status.conditions.iter().map(|c| (c.reason.clone(), c.message.clone())).collect();
        (
            status.sync_status.clone(),
            status.last_sync_error.clone(),
            status.observed_generation,
            status.holders.clone(),
            status.pending_actions.clone(),
            status.system.clone(),
            counts,
            reasons,
        )
    };
    key(previous) != key(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configure::Action;
    use ferroband_api::sriov::VfHolder;
    use ferroband_model::{FaultCode, Guid};

    fn status_of(pass: &ConfigurationPass, progress: &Progress) -> SriovNetworkNodeStateStatus {
        build_status(&SriovNetworkNodeState::new("n", Default::default()), None, pass, &[], progress)
    }

    // Case: operator C64
    #[test]
    fn node_without_rdma_reports_no_rdma_mode() {
        let status_with = |mode| {
            let mut pass = ConfigurationPass::default();
            pass.observed.rdma_mode = mode;
            status_of(&pass, &Progress::Settled)
        };
        let without = status_with(None);
        assert_eq!((without.system, without.sync_status.as_deref()), (None, Some(SUCCEEDED)));
        let with = status_with(Some(ferroband_kernel::NetnsMode::Shared)).system.unwrap();
        assert_eq!(with.rdma_mode.as_deref(), Some("shared"));
    }

    // Case: operator C56
    #[test]
    fn node_that_waits_for_its_reboot_reports_that_and_not_a_failure() {
        let fault = Fault::new(FaultCode::DeviceBusy, "this node", "firmware of A", "reboot the node");
        let status = status_of(&ConfigurationPass::default(), &Progress::RebootRequired(fault));
        assert_eq!((status.sync_status.as_deref(), status.last_sync_error), (Some(IN_PROGRESS), None));
        assert_eq!(status.conditions[0].reason, "RebootRequired");
        assert!(status.conditions[0].message.contains("firmware of A"), "{:?}", status.conditions);
    }

    // Case: operator C52
    #[test]
    fn deferred_change_is_reported_with_function_difference_and_pod() {
        let holder = VfHolder { namespace: "ns".into(), name: "holder".into(), ..VfHolder::default() };
        let action = Action::SetVfGuid {
            pf: "0000:86:00.0".parse().unwrap(),
            vf: "0000:86:00.3".parse().unwrap(),
            index: 1,
            guid: Guid::new(0x0200_0000_0000_0001),
            link_auto: false,
        };
        let mut pass = ConfigurationPass::default();
        pass.diff.waiting.push(WaitingAction { action, wait: Wait::InUse(vec![holder]) });
        let status = status_of(&pass, &Progress::Settled);
        let condition = &status.conditions[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "InUse"));
        for part in ["0000:86:00.3", "GUID 02:00:00:00:00:00:00:01", "ns/holder"] {
            assert!(condition.message.contains(part), "{}", condition.message);
        }
        assert!(status.holders.is_empty(), "the leader must not evict the pod");
        assert!(is_urgent(&status_of(&ConfigurationPass::default(), &Progress::Settled), &status));
    }
}
