//! The annotation by which the node requests a drain or a reboot from the cluster daemon. Does no I/O.

use ferroband_api::sriov::{CURRENT_STATE, DESIRED_STATE, IDLE, SriovNetworkNodeState};
use kube::ResourceExt;

/// Returns the annotations `desired-state`, which the node writes, and `current-state`, which the drain controller
/// writes.
pub fn drain_annotations(state: &SriovNetworkNodeState) -> (Option<&str>, Option<&str>) {
    let annotation = |key: &str| state.annotations().get(key).map(String::as_str);
    (annotation(DESIRED_STATE), annotation(CURRENT_STATE))
}

/// Returns the next value of `desired-state` if the node needs `needed`, given the current values of `desired-state`
/// and `current-state`.
///
/// A completed drain permits only what it was requested for: a drain for one adapter evicts few pods, a drain for a
/// reboot evicts all. A change from one request to another therefore goes through `Idle`, and the next request is made
/// only after the drain controller has returned to `Idle`, too.
pub fn next_drain_request<'a>(needed: &'a str, desired: Option<&str>, current: Option<&str>) -> &'a str {
    let is_idle = |value: Option<&str>| value.is_none_or(|value| value.is_empty() || value == IDLE);
    if desired == Some(needed) || is_idle(desired) && is_idle(current) { needed } else { IDLE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::sriov::{DRAIN_COMPLETE, DRAIN_REQUIRED, DRAINING, REBOOT_REQUIRED};

    // Case: operator C67
    #[test]
    fn drain_for_a_smaller_change_is_no_permission_for_a_reboot() {
        let next = |desired, current| next_drain_request(REBOOT_REQUIRED, Some(desired), Some(current));
        assert_eq!(next(DRAIN_REQUIRED, DRAIN_COMPLETE), IDLE);
        assert_eq!(next(DRAIN_REQUIRED, DRAINING), IDLE);
        assert_eq!(next(DRAIN_REQUIRED, IDLE), IDLE);
        assert_eq!(next(IDLE, DRAIN_COMPLETE), IDLE, "the controller has not returned to Idle yet");
        assert_eq!(next(IDLE, DRAINING), IDLE);
        assert_eq!(next(IDLE, IDLE), REBOOT_REQUIRED);
        assert_eq!(next(REBOOT_REQUIRED, DRAINING), REBOOT_REQUIRED);
        assert_eq!(next(REBOOT_REQUIRED, DRAIN_COMPLETE), REBOOT_REQUIRED);
    }

    #[test]
    fn first_request_and_its_end_are_written_at_once() {
        assert_eq!(next_drain_request(DRAIN_REQUIRED, None, None), DRAIN_REQUIRED);
        assert_eq!(next_drain_request(DRAIN_REQUIRED, Some(""), Some("")), DRAIN_REQUIRED);
        assert_eq!(next_drain_request(IDLE, Some(DRAIN_REQUIRED), Some(DRAIN_COMPLETE)), IDLE);
        assert_eq!(next_drain_request(IDLE, None, None), IDLE);
        assert_eq!(next_drain_request(DRAIN_REQUIRED, Some(REBOOT_REQUIRED), Some(DRAIN_COMPLETE)), IDLE);
    }
}
