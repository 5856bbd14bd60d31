//! Conditions: what came of an object that people wrote.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The longest message; more belongs in the log.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A condition to be told.
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

/// What the conditions `there` have to become to say what is `wanted`; nothing if they say it already. The time of a
/// condition changes with its status only. Those of others stay theirs.
pub fn updated_conditions(
    there: &[Condition],
    wanted: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let known = |kind: &str| there.iter().find(|condition| condition.type_ == kind);
    let next: Vec<Condition> = wanted
        .iter()
        .map(|condition| {
            let same = known(&condition.type_).filter(|known| known.status == condition.status);
            let since = same.map_or_else(|| Time(now), |known| known.last_transition_time.clone());
            Condition { last_transition_time: since, observed_generation: generation, ..condition.clone() }
        })
        .collect();
    let all = next.iter().all(|condition| known(&condition.type_) == Some(condition));
    (!all).then_some(next)
}

/// Those of `next` whose status is another than before, or that are new and say that something is wrong.
pub fn transitions<'a>(there: &[Condition], next: &'a [Condition]) -> Vec<&'a Condition> {
    let before =
        |kind: &str| there.iter().find(|condition| condition.type_ == kind).map(|c| (&c.status, &c.reason));
    next.iter()
        .filter(|condition| match before(&condition.type_) {
            Some((status, reason)) => *status != condition.status || *reason != condition.reason,
            None => true,
        })
        .collect()
}
