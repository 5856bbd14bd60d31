//! Computes the condition `Ready` of a SriovIBNetwork.

use ferroband_daemon::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The result of reconciling a SriovIBNetwork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IbNetworkOutcome {
    /// The NetworkAttachmentDefinition exists and is up to date.
    Ready {
        /// Namespace of the NetworkAttachmentDefinition.
        namespace: String,
    },
    /// The namespace in which the NetworkAttachmentDefinition belongs does not exist yet.
    NamespaceMissing(String),
    /// No NetworkAttachmentDefinition can be written, because the spec is invalid or the name is taken. The
    /// string is the message for the Ready condition.
    Invalid(String),
}

/// Returns the Ready condition to write, or `None` if `current` already contains it.
pub fn ready_condition(
    outcome: &IbNetworkOutcome,
    current: &[Condition],
    generation: Option<i64>,
) -> Option<Condition> {
    let (is_ready, reason, message) = match outcome {
        IbNetworkOutcome::Ready { namespace } => {
            (true, "NetworkReady", format!("the NetworkAttachmentDefinition exists in namespace {namespace}"))
        }
        IbNetworkOutcome::NamespaceMissing(namespace) => (
            false,
            "NamespaceNotFound",
            format!(
                "namespace {namespace} does not exist; create it, and the NetworkAttachmentDefinition is created as well"
            ),
        ),
        IbNetworkOutcome::Invalid(why) => (false, "NetworkAttachmentDefinitionInvalid", why.clone()),
    };
    let ready = condition(current, "Ready", Some(is_ready), reason, message);
    let ready = Condition { observed_generation: generation, ..ready };
    (!current.contains(&ready)).then_some(ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn the_condition_is_written_on_change_and_keeps_its_time_while_the_status_is_the_same() {
        let missing = IbNetworkOutcome::NamespaceMissing("a".into());
        let first = ready_condition(&missing, &[], Some(1)).unwrap();
        assert_eq!((first.status.as_str(), first.reason.as_str()), ("False", "NamespaceNotFound"));
        assert_eq!(ready_condition(&missing, std::slice::from_ref(&first), Some(1)), None);
        let old = Condition { last_transition_time: Time(Timestamp::UNIX_EPOCH), ..first };
        let other =
            ready_condition(&IbNetworkOutcome::Invalid("x".into()), std::slice::from_ref(&old), Some(2))
                .unwrap();
        assert_eq!(other.last_transition_time, old.last_transition_time);
        let ready =
            ready_condition(&IbNetworkOutcome::Ready { namespace: "a".into() }, &[other], Some(2)).unwrap();
        assert!(ready.status == "True" && ready.last_transition_time != old.last_transition_time);
    }
}
