//! The condition `Ready` of a SriovIBNetwork.

use ferroband_daemon::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What came of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IbNetworkOutcome {
    /// Its definition is there.
    Ready {
        /// Where.
        namespace: String,
    },
    /// The namespace of its definition is not there yet.
    NamespaceMissing(String),
    /// It cannot have a definition.
    Invalid(String),
}

/// The condition to write, if it is not the one that stands there.
pub fn ready_condition(
    verdict: &IbNetworkOutcome,
    current: &[Condition],
    generation: Option<i64>,
) -> Option<Condition> {
    let (good, reason, message) = match verdict {
        IbNetworkOutcome::Ready { namespace } => {
            (true, "NetworkReady", format!("the network is defined in namespace {namespace}"))
        }
        IbNetworkOutcome::NamespaceMissing(namespace) => (
            false,
            "NamespaceNotFound",
            format!("namespace {namespace} is not there; the network is defined as soon as it is"),
        ),
        IbNetworkOutcome::Invalid(why) => (false, "NetworkAttachmentDefinitionInvalid", why.clone()),
    };
    let before = current.iter().find(|condition| condition.type_ == "Ready");
    let same = before.is_some_and(|before| {
        (before.status == "True", before.reason.as_str(), &before.message) == (good, reason, &message)
            && before.observed_generation == generation
    });
    if same {
        return None;
    }
    let ready = condition(current, "Ready", Some(good), reason, message);
    Some(Condition { observed_generation: generation, ..ready })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn it_is_written_when_it_changes_and_keeps_its_time_while_the_status_stays() {
        let missing = IbNetworkOutcome::NamespaceMissing("a".into());
        let first = ready_condition(&missing, &[], Some(1)).unwrap();
        assert_eq!((first.status.as_str(), first.reason.as_str()), ("False", "NamespaceNotFound"));
        assert_eq!(ready_condition(&missing, std::slice::from_ref(&first), Some(1)), None);
        let old = Condition { last_transition_time: Time(Timestamp::UNIX_EPOCH), ..first };
        let other =
            ready_condition(&IbNetworkOutcome::Invalid("x".into()), std::slice::from_ref(&old), Some(2))
                .unwrap();
        assert_eq!(other.last_transition_time, old.last_transition_time);
        let good =
            ready_condition(&IbNetworkOutcome::Ready { namespace: "a".into() }, &[other], Some(2)).unwrap();
        assert!(good.status == "True" && good.last_transition_time != old.last_transition_time);
    }
}
