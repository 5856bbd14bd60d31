//! Detects a hung opensm.
//!
//! opensm has no timeout of its own for MADs; it relies on the transport to return unanswered ones. If that does not
//! happen (seen with opensm 3.3.23 over ibsim, when a master dies during the SMInfo exchange with its standby), it
//! stays in DISCOVERING forever: the process runs, but the fabric has no master.

use std::time::{Duration, Instant};

/// How long the fabric may have no master while opensm is idle. A standby takes over within six seconds, and an
/// opensm that discovers a large fabric is busy.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// Less CPU time than this within [`HANG_TIMEOUT`] counts as idle (in ticks; the kernel shows a hundred per second).
const IDLE_TICKS: u64 = 20;

/// Observations of the fabric's master while our opensm is running.
#[derive(Debug, Default)]
pub struct HangDetector {
    /// Whether there was a master. If there never was one, the port has no link, and a restart would not help.
    had_master: bool,
    /// Since when there is no master, and opensm's CPU time at that moment.
    no_master_since: Option<(Instant, u64)>,
}

impl HangDetector {
    /// For an opensm that is already running and may hang.
    pub fn for_running() -> Self {
        Self { had_master: true, no_master_since: None }
    }

    /// Records that the fabric has a master.
    pub fn record_master(&mut self) {
        *self = Self::for_running();
    }

    /// Records that there is no master and how much CPU time opensm has used. Returns whether it hangs.
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
    fn idle_opensm_without_a_master_hangs() {
        let (start, mut detector) = (Instant::now(), HangDetector::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        // There never was a master: the cable is not connected.
        assert!(!detector.record_no_master(1, at(0)) && !detector.record_no_master(1, at(100)));
        detector.record_master();
        assert!(!detector.record_no_master(2, at(110)) && !detector.record_no_master(3, at(120)));
        assert!(detector.record_no_master(4, at(130)), "idle for twenty seconds");
        // Busy with a large fabric.
        detector.record_master();
        assert!(
            !detector.record_no_master(100, at(200))
                && !detector.record_no_master(700, at(220))
                && !detector.record_no_master(701, at(230))
        );
        assert!(detector.record_no_master(702, at(240)));
        detector.record_master();
        assert!(!detector.record_no_master(703, at(250)));
    }
}
