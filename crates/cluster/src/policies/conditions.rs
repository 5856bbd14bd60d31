//! Builds and compares the conditions of SriovNetworkNodePolicies and SriovNetworkPoolConfigs.

use ferroband_daemon::condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Maximum length of a condition's message in bytes. A longer message is truncated to this length.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Builds a condition. [`updated_conditions`] sets its transition time and generation.
pub fn new_condition(kind: &str, status: bool, reason: &str, message: impl Into<String>) -> Condition {
    let mut message = message.into();
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    let new = condition(&[], kind, Some(status), reason, message);
    Condition { last_transition_time: Time(Timestamp::UNIX_EPOCH), ..new }
}

/// Returns the conditions to write, or `None` if `current` already matches `desired`. The transition time of a
/// condition changes only if its status changes. Conditions of other controllers are not included.
pub fn updated_conditions(
    current: &[Condition],
    desired: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let existing = |kind: &str| current.iter().find(|condition| condition.type_ == kind);
    let next: Vec<Condition> = desired
        .iter()
        .map(|condition| {
            let same = existing(&condition.type_).filter(|existing| existing.status == condition.status);
            let since = same.map_or_else(|| Time(now), |existing| existing.last_transition_time.clone());
            Condition { last_transition_time: since, observed_generation: generation, ..condition.clone() }
        })
        .collect();
    let all = next.iter().all(|condition| existing(&condition.type_) == Some(condition));
    (!all).then_some(next)
}

/// Returns the conditions of `next` that are not in `current` with the same status and reason.
pub fn transitions<'a>(current: &[Condition], next: &'a [Condition]) -> Vec<&'a Condition> {
    let key =
        |condition: &Condition| (condition.type_.clone(), condition.status.clone(), condition.reason.clone());
    next.iter().filter(|new| !current.iter().any(|old| key(old) == key(new))).collect()
}
