//! States of nodes that are gone.

use jiff::{SignedDuration, Timestamp};

/// Nodes that come back within this time find their state as it was.
pub const DELAY: SignedDuration = SignedDuration::from_mins(30);

/// What to do about a node state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Nothing.
    Fine,
    /// Write down until when it is kept.
    Mark(Timestamp),
    /// The node is back: take that away.
    Unmark,
    /// The time is over.
    Delete,
}

/// What to do about the state of a node that is `there` or not, which is `kept` until some time.
pub fn stale(there: bool, kept: Option<&str>, now: Timestamp, delay: SignedDuration) -> Stale {
    let until = kept.map(|text| text.parse::<Timestamp>());
    match (there, until) {
        (true, None) => Stale::Fine,
        (true, Some(_)) => Stale::Unmark,
        (false, _) if delay.is_zero() => Stale::Delete,
        (false, None | Some(Err(_))) => Stale::Mark(now + delay),
        (false, Some(Ok(until))) if until <= now => Stale::Delete,
        (false, Some(Ok(_))) => Stale::Fine,
    }
}

/// The delay that the environment asks for, in minutes; the usual one when it asks for nonsense.
pub fn delay(variable: Option<&str>) -> SignedDuration {
    let minutes = variable.and_then(|text| text.parse::<u32>().ok());
    minutes.map_or(DELAY, |minutes| SignedDuration::from_mins(i64::from(minutes)))
}
