//! States of nodes that are gone.

use jiff::{SignedDuration, Timestamp};

/// Nodes that come back within this time find their state as it was.
pub const DEFAULT_DELAY: SignedDuration = SignedDuration::from_mins(30);

/// What to do about a node state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStateAction {
    /// Nothing.
    Keep,
    /// Write down until when it is kept.
    Mark(Timestamp),
    /// The node is back: take that away.
    Unmark,
    /// The time is over.
    Delete,
}

/// What to do about the state of a node that is `there` or not, which is `kept` until some time.
pub fn node_state_action(
    there: bool,
    kept: Option<&str>,
    now: Timestamp,
    delay: SignedDuration,
) -> NodeStateAction {
    let until = kept.map(|text| text.parse::<Timestamp>());
    match (there, until) {
        (true, None) => NodeStateAction::Keep,
        (true, Some(_)) => NodeStateAction::Unmark,
        (false, _) if delay.is_zero() => NodeStateAction::Delete,
        (false, None | Some(Err(_))) => NodeStateAction::Mark(now + delay),
        (false, Some(Ok(until))) if until <= now => NodeStateAction::Delete,
        (false, Some(Ok(_))) => NodeStateAction::Keep,
    }
}

/// The delay that the environment asks for, in minutes; the usual one when it asks for nonsense.
pub fn parse_delay(variable: Option<&str>) -> SignedDuration {
    let minutes = variable.and_then(|text| text.parse::<u32>().ok());
    minutes.map_or(DEFAULT_DELAY, |minutes| SignedDuration::from_mins(i64::from(minutes)))
}
