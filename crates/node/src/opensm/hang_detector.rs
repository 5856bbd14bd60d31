//! Whether an opensm that runs does its work.
//!
//! opensm has no time limit of its own for an answer: it trusts that whatever carries its questions gives them back
//! unanswered. Where that does not happen (seen with opensm 3.3.23 over ibsim, when a master dies while it and its standby
//! greet each other) it waits in DISCOVERING for ever: the process runs, and the fabric has no master.

use std::time::{Duration, Instant};

/// How long nobody is master, and ours does nothing about it, before it counts as hung. A standby of ours takes over
/// within six seconds, and one that discovers a large fabric is busy with it.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// Less processor time than this in [`PATIENCE`] is nothing (in ticks, of which the kernel shows a hundred a second).
const IDLE_TICKS: u64 = 20;

/// What was seen of the fabric's master while one of ours runs.
#[derive(Debug, Default)]
pub struct HangDetector {
    /// Whether there was one. Where there never was, the port has no link, and starting anew would not mend it.
    had_master: bool,
    /// Since when there is none, and how much processor time ours had used by then.
    no_master_since: Option<(Instant, u64)>,
}

impl HangDetector {
    /// For one that runs already, and may hang.
    pub fn for_running() -> Self {
        Self { had_master: true, no_master_since: None }
    }

    /// There is a master.
    pub fn record_master(&mut self) {
        *self = Self::for_running();
    }

    /// There is none, and ours has used so much processor time. Says whether it hangs.
    pub fn record_no_master(&mut self, used: u64, now: Instant) -> bool {
        match self.no_master_since {
            Some((since, before)) if used.saturating_sub(before) < IDLE_TICKS => {
                self.had_master && now.duration_since(since) >= HANG_TIMEOUT
            }
            _ => {
                self.no_master_since = Some((now, used));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_does_nothing_without_a_master_hangs() {
        let (start, mut vigil) = (Instant::now(), HangDetector::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        // Never a master: the cable is not in.
        assert!(!vigil.record_no_master(1, at(0)) && !vigil.record_no_master(1, at(100)));
        vigil.record_master();
        assert!(!vigil.record_no_master(2, at(110)) && !vigil.record_no_master(3, at(120)));
        assert!(vigil.record_no_master(4, at(130)), "nothing for twenty seconds");
        // Busy: a large fabric.
        vigil.record_master();
        assert!(
            !vigil.record_no_master(100, at(200))
                && !vigil.record_no_master(700, at(220))
                && !vigil.record_no_master(701, at(230))
        );
        assert!(vigil.record_no_master(702, at(240)));
        vigil.record_master();
        assert!(!vigil.record_no_master(703, at(250)));
    }
}
