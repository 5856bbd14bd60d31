//! Conditions of policies and pools.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longer messages are truncated.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A condition without transition time and generation, which [`updated_conditions`] sets.
pub fn new_condition(kind: &str, status: bool, reason: &str, message: impl Into<String>) -> Condition {
    let mut message = message.into();
    if message.len() > MAX_MESSAGE_BYTES {
        let end =
            (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    Condition {
        type_: kind.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// The conditions to write, or `None` if `current` already matches `desired`. The transition time changes only with the
/// status. Conditions of other controllers are not included.
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

/// The conditions of `next` that are new or have another status or reason than before.
pub fn transitions<'a>(current: &[Condition], next: &'a [Condition]) -> Vec<&'a Condition> {
    let before =
        |kind: &str| current.iter().find(|condition| condition.type_ == kind).map(|c| (&c.status, &c.reason));
    next.iter()
        .filter(|condition| match before(&condition.type_) {
            Some((status, reason)) => *status != condition.status || *reason != condition.reason,
            None => true,
        })
        .collect()
}
