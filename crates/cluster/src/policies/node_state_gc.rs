//! Decides when to delete SriovNetworkNodeStates of deleted nodes.

use jiff::{SignedDuration, Timestamp};

/// How long the SriovNetworkNodeState of a deleted node is kept, in case the node comes back.
pub const DEFAULT_DELAY: SignedDuration = SignedDuration::from_mins(30);

/// Decision of the garbage collection about one SriovNetworkNodeState, whose node exists or was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStateAction {
    Keep,
    /// The node was deleted: annotate its SriovNetworkNodeState with the time until which it is kept.
    Mark(Timestamp),
    /// The node is back: remove this annotation from its SriovNetworkNodeState.
    Unmark,
    Delete,
}

/// Decides what to do with a SriovNetworkNodeState. `keep_until` is the time in its annotation, if it has
/// one.
pub fn node_state_action(
    node_exists: bool,
    keep_until: Option<&str>,
    now: Timestamp,
    delay: SignedDuration,
) -> NodeStateAction {
    let until = keep_until.map(|text| text.parse::<Timestamp>());
    match (node_exists, until) {
        (true, None) => NodeStateAction::Keep,
        (true, Some(_)) => NodeStateAction::Unmark,
        (false, _) if delay.is_zero() => NodeStateAction::Delete,
        (false, None | Some(Err(_))) => NodeStateAction::Mark(now + delay),
        (false, Some(Ok(until))) if until <= now => NodeStateAction::Delete,
        (false, Some(Ok(_))) => NodeStateAction::Keep,
    }
}

/// Parses STALE_NODE_STATE_CLEANUP_DELAY_MINUTES. Returns the default if the variable is unset or invalid.
pub fn parse_delay(variable: Option<&str>) -> SignedDuration {
    let minutes = variable.and_then(|text| text.parse::<u32>().ok());
    minutes.map_or(DEFAULT_DELAY, |minutes| SignedDuration::from_mins(i64::from(minutes)))
}
