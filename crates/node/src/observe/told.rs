//! Which failures have been told, so that a pod that is tried again and again does not fill the event list.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A failure that goes on is told at most this often.
const QUIET: Duration = Duration::from_secs(30);
/// One that has become another of the same kind may be told a little earlier: somebody is working on it.
const CHANGED: Duration = Duration::from_secs(5);
/// What has not happened for this long is forgotten; the API server forgets events after an hour.
const MEMORY: Duration = Duration::from_secs(3600);

/// A kind of failure: the pod's UID (or name) and the reason.
pub type Failure = (String, String);

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Telling {
    /// It is new: make an event of this name.
    First(String),
    /// It goes on: the event of this name now counts so many.
    Again(String, i32),
    /// It was told a moment ago.
    Quiet,
}

/// The failures of the last hour.
#[derive(Debug, Default)]
pub struct Ledger {
    told: HashMap<Failure, Told>,
}

#[derive(Debug)]
struct Told {
    name: String,
    message: String,
    count: i32,
    last_told: Instant,
    last_seen: Instant,
}

impl Ledger {
    /// A failure happened `now`; `name` is what its event would be called.
    pub fn happened(
        &mut self,
        failure: Failure,
        message: &str,
        name: impl FnOnce() -> String,
        now: Instant,
    ) -> Telling {
        self.told.retain(|_, told| now.duration_since(told.last_seen) < MEMORY);
        let known = self.told.get_mut(&failure);
        match known {
            Some(told) if told.message == message => {
                told.count = told.count.saturating_add(1);
                told.last_seen = now;
                if now.duration_since(told.last_told) < QUIET {
                    return Telling::Quiet;
                }
                told.last_told = now;
                Telling::Again(told.name.clone(), told.count)
            }
            Some(told) if now.duration_since(told.last_told) < CHANGED => Telling::Quiet,
            _ => {
                let name = name();
                let message = message.to_owned();
                self.told.insert(
                    failure,
                    Told { name: name.clone(), message, count: 1, last_told: now, last_seen: now },
                );
                Telling::First(name)
            }
        }
    }

    /// Telling it did not work; the next time is the first again.
    pub fn forget(&mut self, failure: &Failure) {
        self.told.remove(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_loop_is_told_once_and_then_twice_a_minute() {
        let mut ledger = Ledger::default();
        let failure = |reason: &str| ("uid".to_owned(), reason.to_owned());
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let first = |name: &str| Telling::First(name.to_owned());
        let told: Vec<_> = (0..61)
            .map(|second| ledger.happened(failure("NoNetworkFound"), "x", || "e1".into(), at(second)))
            .filter(|telling| *telling != Telling::Quiet)
            .collect();
        assert_eq!(told, [first("e1"), Telling::Again("e1".into(), 31), Telling::Again("e1".into(), 61)]);
        assert_eq!(ledger.happened(failure("NoParent"), "x", || "e2".into(), at(61)), first("e2"));
        // Another network is missing now.
        let mut changed =
            |second| ledger.happened(failure("NoNetworkFound"), "y", || "e3".into(), at(second));
        assert_eq!((changed(62), changed(66), changed(67)), (Telling::Quiet, first("e3"), Telling::Quiet));
        ledger.forget(&failure("NoParent"));
        assert_eq!(ledger.happened(failure("NoParent"), "x", || "e4".into(), at(68)), first("e4"));
    }
}
