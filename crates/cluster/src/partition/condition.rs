//! Conditions that say since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition, with the time of the last change kept from the one before.
pub fn condition(
    before: &[Condition],
    kind: &str,
    status: Option<bool>,
    reason: &str,
    message: String,
) -> Condition {
    let status = status.map_or("Unknown", |status| if status { "True" } else { "False" });
    let old = before.iter().find(|old| old.type_ == kind && old.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: old
            .map_or_else(|| Time(Timestamp::now()), |old| old.last_transition_time.clone()),
        observed_generation: None,
    }
}
