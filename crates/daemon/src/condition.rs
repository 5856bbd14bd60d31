//! Conditions in an object's status, which say since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition that stands since `before` says so, or since now; without a status it is unknown.
pub fn condition(
    before: &[Condition],
    kind: &str,
    status: Option<bool>,
    reason: &str,
    message: String,
) -> Condition {
    let status = status.map_or("Unknown", |status| if status { "True" } else { "False" });
    let known = before.iter().find(|known| known.type_ == kind && known.status == status);
    // The API's times have no fractions.
    let now = || Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: known.map_or_else(|| Time(now()), |known| known.last_transition_time.clone()),
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_its_time_while_the_status_stays() {
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
