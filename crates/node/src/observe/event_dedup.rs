//! Limits how often a repeated failure produces an event, because the kubelet retries a failing pod continuously.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Minimum interval between updates of an event whose message has not changed.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum age of an event before a failure with another message creates a new event. It is shorter than
/// [`REPEAT_INTERVAL`], because a new message usually means that someone is fixing the cause.
const CHANGED_MESSAGE_INTERVAL: Duration = Duration::from_secs(5);
/// How long a failure that does not recur is remembered. The API server also keeps events for an hour by
/// default.
const RETENTION: Duration = Duration::from_secs(3600);

/// Key of a failure: the pod's UID, or `namespace/name` if the UID is unknown, and the event's reason.
pub type PodFailureKey = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEventAction {
    /// Create an event with this name.
    Create(String),
    /// Set the count of the event with this name to this number.
    UpdateCount(String, i32),
    /// Do nothing, because the failure was reported recently.
    Suppress,
}

/// Remembers the failures of the last hour and the event that reported each.
#[derive(Debug, Default)]
pub struct PodEventDedup {
    reported: HashMap<PodFailureKey, ReportedFailure>,
}

#[derive(Debug)]
struct ReportedFailure {
    name: String,
    message: String,
    count: i32,
    last_reported: Instant,
    last_seen: Instant,
}

impl PodEventDedup {
    /// Records that a failure happened at `now`, and returns what to do about its event. `name` generates the
    /// name of a new event.
    pub fn record(
        &mut self,
        failure: PodFailureKey,
        message: &str,
        name: impl FnOnce() -> String,
        now: Instant,
    ) -> PodEventAction {
        self.reported.retain(|_, previous| now.duration_since(previous.last_seen) < RETENTION);
        let known = self.reported.get_mut(&failure);
        match known {
            Some(previous) if previous.message == message => {
                previous.count = previous.count.saturating_add(1);
                previous.last_seen = now;
                if now.duration_since(previous.last_reported) < REPEAT_INTERVAL {
                    return PodEventAction::Suppress;
                }
                previous.last_reported = now;
                PodEventAction::UpdateCount(previous.name.clone(), previous.count)
            }
            Some(previous) if now.duration_since(previous.last_reported) < CHANGED_MESSAGE_INTERVAL => {
                PodEventAction::Suppress
            }
            _ => {
                let name = name();
                let message = message.to_owned();
                self.reported.insert(
                    failure,
                    ReportedFailure {
                        name: name.clone(),
                        message,
                        count: 1,
                        last_reported: now,
                        last_seen: now,
                    },
                );
                PodEventAction::Create(name)
            }
        }
    }

    /// Forgets a failure whose event could not be written, so that its next occurrence creates a new event.
    pub fn remove(&mut self, failure: &PodFailureKey) {
        self.reported.remove(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_loop_creates_one_event_and_updates_it_twice_a_minute() {
        let mut dedup = PodEventDedup::default();
        let failure = |reason: &str| ("uid".to_owned(), reason.to_owned());
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let first = |name: &str| PodEventAction::Create(name.to_owned());
        let actions: Vec<_> = (0..61)
            .map(|second| dedup.record(failure("NoNetworkFound"), "x", || "e1".into(), at(second)))
            .filter(|action| *action != PodEventAction::Suppress)
            .collect();
        assert_eq!(
            actions,
            [
                first("e1"),
                PodEventAction::UpdateCount("e1".into(), 31),
                PodEventAction::UpdateCount("e1".into(), 61)
            ]
        );
        assert_eq!(dedup.record(failure("NoParent"), "x", || "e2".into(), at(61)), first("e2"));
        // A new message of the same failure must create a new event, but not within five seconds after the
        // last event of this failure was written.
        let mut changed = |second| dedup.record(failure("NoNetworkFound"), "y", || "e3".into(), at(second));
        assert_eq!(
            (changed(62), changed(66), changed(67)),
            (PodEventAction::Suppress, first("e3"), PodEventAction::Suppress)
        );
        dedup.remove(&failure("NoParent"));
        assert_eq!(dedup.record(failure("NoParent"), "x", || "e4".into(), at(68)), first("e4"));
    }
}
