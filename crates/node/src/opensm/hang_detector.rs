//! Detects a hung opensm.
//!
//! opensm has no timeout of its own for MADs; it relies on the transport to return unanswered ones. If the
//! transport does not return one (observed with opensm 3.3.23 over ibsim, when a master dies during the
//! SMInfo exchange with its standby), opensm stays in DISCOVERING forever: the process runs, but the fabric
//! has no master.

use std::time::{Duration, Instant};

/// How long the fabric may have no master while opensm is idle. A standby takes over within six seconds, and an
/// opensm that discovers a large fabric is busy.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// opensm counts as idle if it uses less CPU time than this within [`HANG_TIMEOUT`]. The unit is clock ticks
/// of 10 ms.
const IDLE_TICKS: u64 = 20;

/// Tracks whether the fabric has a master subnet manager while our opensm is running.
#[derive(Debug, Default)]
pub struct HangDetector {
    /// Whether the fabric has ever had a master. If not, the port probably has no link, and a restart would
    /// not help.
    had_master: bool,
    /// When the fabric lost its master, and opensm's CPU time at that moment; `None` while there is a master.
    no_master_since: Option<(Instant, u64)>,
}

impl HangDetector {
    /// Creates a detector for an opensm that is already running. It may hang already, so a master is assumed
    /// to have existed.
    pub fn for_running() -> Self {
        Self { had_master: true, no_master_since: None }
    }

    /// Records that the fabric has a master, which ends a possible hang.
    pub fn record_master(&mut self) {
        *self = Self::for_running();
    }

    /// Records that the fabric has no master and that opensm has used `used` ticks of CPU time. Returns
    /// whether opensm hangs.
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
        // The fabric never had a master, for example because the cable is not connected, so opensm must not
        // count as hung.
        assert!(!detector.record_no_master(1, at(0)) && !detector.record_no_master(1, at(100)));
        detector.record_master();
        assert!(!detector.record_no_master(2, at(110)) && !detector.record_no_master(3, at(120)));
        assert!(detector.record_no_master(4, at(130)), "idle for twenty seconds");
        // opensm is busy discovering a large fabric, so it must not count as hung.
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
