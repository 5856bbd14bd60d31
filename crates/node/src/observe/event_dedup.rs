//! Which failures have been told, so that a pod that is tried again and again does not fill the event list.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A failure that goes on is told at most this often.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// One that has become another of the same kind may be told a little earlier: somebody is working on it.
const CHANGED_MESSAGE_INTERVAL: Duration = Duration::from_secs(5);
/// What has not happened for this long is forgotten; the API server forgets events after an hour.
const RETENTION: Duration = Duration::from_secs(3600);

/// A kind of failure: the pod's UID (or name) and the reason.
pub type PodFailureKey = (String, String);

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEventAction {
    /// It is new: make an event of this name.
    Create(String),
    /// It goes on: the event of this name now counts so many.
    UpdateCount(String, i32),
    /// It was told a moment ago.
    Suppress,
}

/// The failures of the last hour.
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
    /// A failure happened `now`; `name` is what its event would be called.
    pub fn record(
        &mut self,
        failure: PodFailureKey,
        message: &str,
        name: impl FnOnce() -> String,
        now: Instant,
    ) -> PodEventAction {
        self.reported.retain(|_, told| now.duration_since(told.last_seen) < RETENTION);
        let known = self.reported.get_mut(&failure);
        match known {
            Some(told) if told.message == message => {
                told.count = told.count.saturating_add(1);
                told.last_seen = now;
                if now.duration_since(told.last_reported) < REPEAT_INTERVAL {
                    return PodEventAction::Suppress;
                }
                told.last_reported = now;
                PodEventAction::UpdateCount(told.name.clone(), told.count)
            }
            Some(told) if now.duration_since(told.last_reported) < CHANGED_MESSAGE_INTERVAL => {
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

    /// Telling it did not work; the next time is the first again.
    pub fn remove(&mut self, failure: &PodFailureKey) {
        self.reported.remove(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_loop_is_told_once_and_then_twice_a_minute() {
        let mut ledger = PodEventDedup::default();
        let failure = |reason: &str| ("uid".to_owned(), reason.to_owned());
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let first = |name: &str| PodEventAction::Create(name.to_owned());
        let told: Vec<_> = (0..61)
            .map(|second| ledger.record(failure("NoNetworkFound"), "x", || "e1".into(), at(second)))
            .filter(|telling| *telling != PodEventAction::Suppress)
            .collect();
        assert_eq!(
            told,
            [
                first("e1"),
                PodEventAction::UpdateCount("e1".into(), 31),
                PodEventAction::UpdateCount("e1".into(), 61)
            ]
        );
        assert_eq!(ledger.record(failure("NoParent"), "x", || "e2".into(), at(61)), first("e2"));
        // Another network is missing now.
        let mut changed = |second| ledger.record(failure("NoNetworkFound"), "y", || "e3".into(), at(second));
        assert_eq!(
            (changed(62), changed(66), changed(67)),
            (PodEventAction::Suppress, first("e3"), PodEventAction::Suppress)
        );
        ledger.remove(&failure("NoParent"));
        assert_eq!(ledger.record(failure("NoParent"), "x", || "e4".into(), at(68)), first("e4"));
    }
}
