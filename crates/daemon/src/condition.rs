//! Status conditions of Kubernetes objects.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Creates a condition of type `kind`. If `before` contains a condition of that type with the same status,
/// its transition time is kept. Without a `status`, the condition is `Unknown`.
pub fn condition(
    before: &[Condition],
    kind: &str,
    status: Option<bool>,
    reason: &str,
    message: String,
) -> Condition {
    let status = status.map_or("Unknown", |status| if status { "True" } else { "False" });
    let previous = before.iter().find(|previous| previous.type_ == kind && previous.status == status);
    // Kubernetes timestamps have no fractions of a second.
    let now = || Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: previous
            .map_or_else(|| Time(now()), |previous| previous.last_transition_time.clone()),
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let make =
            |before: &[Condition], status, reason| condition(before, "Ready", status, reason, String::new());
        let first = make(&[], Some(false), "One");
        assert_eq!(first.last_transition_time.0.subsec_nanosecond(), 0);
        let old = [Condition { last_transition_time: Time(Timestamp::UNIX_EPOCH), ..first }];
        let other = make(&old, Some(false), "Other");
        assert_eq!(
            (&other.last_transition_time, other.reason.as_str()),
            (&old[0].last_transition_time, "Other")
        );
        for (status, text) in [(Some(true), "True"), (None, "Unknown")] {
            let changed = make(&old, status, "Other");
            assert_eq!(changed.status, text);
            assert_ne!(changed.last_transition_time, old[0].last_transition_time);
        }
    }
}
