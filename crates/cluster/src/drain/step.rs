//! Computes the next drain step of a node from its annotations. Does no I/O.

use ferroband_api::sriov::{
    CURRENT_STATE, DESIRED_STATE, DRAIN_COMPLETE, DRAIN_REQUIRED, DRAINING, EXTERNAL_DRAINER,
    REBOOT_REQUIRED, SriovNetworkNodeState,
};
use kube::ResourceExt;

/// What the drain controller does next for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    NoAction,
    /// Start the drain if the budget of the node's pool allows it.
    Start,
    /// Evict the affected pods, or all pods for a reboot.
    Evict {
        /// Whether to evict all pods, for a reboot.
        all: bool,
    },
    /// Report completion without evicting pods: a single-node cluster has nowhere to move them.
    Complete,
    /// Uncordon the node and return to `Idle`.
    Finish,
}

/// Computes the next step from the annotations of a SriovNetworkNodeState. `nodes` is the number of nodes in the
/// cluster.
pub fn next_step(state: &SriovNetworkNodeState, nodes: usize) -> DrainStep {
    let annotations = state.annotations();
    let get = |key: &str| annotations.get(key).map(String::as_str).unwrap_or_default();
    if get(EXTERNAL_DRAINER) == "true" {
        return DrainStep::NoAction;
    }
    let holders = state.status.as_ref().is_some_and(|status| !status.holders.is_empty());
    match (get(DESIRED_STATE), get(CURRENT_STATE)) {
        (DRAIN_REQUIRED, DRAINING) => DrainStep::Evict { all: false },
        (REBOOT_REQUIRED, DRAINING) if nodes < 2 => DrainStep::Complete,
        (REBOOT_REQUIRED, DRAINING) => DrainStep::Evict { all: true },
        // A pod got an affected device after the drain was complete, so it must be evicted as well.
        (DRAIN_REQUIRED, DRAIN_COMPLETE) if holders => DrainStep::Evict { all: false },
        (DRAIN_REQUIRED | REBOOT_REQUIRED, DRAIN_COMPLETE) => DrainStep::NoAction,
        (DRAIN_REQUIRED | REBOOT_REQUIRED, _) => DrainStep::Start,
        (_, DRAINING | DRAIN_COMPLETE) => DrainStep::Finish,
        _ => DrainStep::NoAction,
    }
}

/// Whether the node counts as unavailable for the drain budget of its pool.
pub fn is_draining(state: &SriovNetworkNodeState) -> bool {
    let current = state.annotations().get(CURRENT_STATE).map(String::as_str);
    matches!(current, Some(DRAINING | DRAIN_COMPLETE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::sriov::{IDLE, SriovNetworkNodeStateSpec, VfHolder};

    fn state(desired: &str, current: &str, holders: usize) -> SriovNetworkNodeState {
        let mut state = SriovNetworkNodeState::new("n", SriovNetworkNodeStateSpec::default());
        let pairs = [(DESIRED_STATE, desired), (CURRENT_STATE, current)];
        let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
        state.metadata.annotations = Some(pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect());
        let status = ferroband_api::sriov::SriovNetworkNodeStateStatus {
            holders: vec![VfHolder::default(); holders],
            ..Default::default()
        };
        state.status = Some(status);
        state
    }

    // Case: operator C44
    #[test]
    fn a_drain_goes_from_idle_over_draining_to_complete_and_back() {
        assert_eq!(next_step(&state("", "", 0), 3), DrainStep::NoAction);
        assert_eq!(next_step(&state(IDLE, IDLE, 0), 3), DrainStep::NoAction);
        assert_eq!(next_step(&state(DRAIN_REQUIRED, "", 1), 3), DrainStep::Start);
        assert_eq!(next_step(&state(DRAIN_REQUIRED, IDLE, 1), 3), DrainStep::Start);
        assert_eq!(next_step(&state(DRAIN_REQUIRED, DRAINING, 1), 3), DrainStep::Evict { all: false });
        assert_eq!(next_step(&state(DRAIN_REQUIRED, DRAIN_COMPLETE, 0), 3), DrainStep::NoAction);
        assert_eq!(next_step(&state(IDLE, DRAIN_COMPLETE, 0), 3), DrainStep::Finish);
        assert_eq!(next_step(&state(IDLE, DRAINING, 0), 3), DrainStep::Finish);
    }

    // Case: operator C66
    #[test]
    fn a_reboot_evicts_all_pods_and_a_late_holder_is_evicted_too() {
        assert_eq!(next_step(&state(REBOOT_REQUIRED, DRAINING, 0), 3), DrainStep::Evict { all: true });
        assert_eq!(next_step(&state(DRAIN_REQUIRED, DRAIN_COMPLETE, 1), 3), DrainStep::Evict { all: false });
        let mut external = state(DRAIN_REQUIRED, IDLE, 1);
        external
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert(EXTERNAL_DRAINER.to_owned(), "true".to_owned());
        assert_eq!(next_step(&external, 3), DrainStep::NoAction, "an external drainer is responsible");
    }

    // Case: operator C70
    #[test]
    fn a_single_node_cluster_reboots_without_evicting_pods() {
        assert_eq!(next_step(&state(REBOOT_REQUIRED, DRAINING, 1), 1), DrainStep::Complete);
        assert_eq!(
            next_step(&state(DRAIN_REQUIRED, DRAINING, 1), 1),
            DrainStep::Evict { all: false },
            "affected devices are freed nevertheless"
        );
    }
}
