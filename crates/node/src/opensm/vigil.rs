//! Whether an opensm that runs does its work.
//!
//! opensm has no time limit of its own for an answer: it trusts that whatever carries its questions gives them back
//! unanswered. Where that does not happen (seen with opensm 3.3.23 over ibsim, when a master dies while it and its standby
//! greet each other) it waits in DISCOVERING for ever: the process runs, and the fabric has no master.

use std::time::{Duration, Instant};

/// How long nobody is master, and ours does nothing about it, before it counts as hung. A standby of ours takes over
/// within six seconds, and one that discovers a large fabric is busy with it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Less processor time than this in [`PATIENCE`] is nothing (in ticks, of which the kernel shows a hundred a second).
const IDLE: u64 = 20;

/// What was seen of the fabric's master while one of ours runs.
#[derive(Debug, Default)]
pub struct Vigil {
    /// Whether there was one. Where there never was, the port has no link, and starting anew would not mend it.
    had: bool,
    /// Since when there is none, and how much processor time ours had used by then.
    without: Option<(Instant, u64)>,
}

impl Vigil {
    /// For one that runs already, and may hang.
    pub fn of_running() -> Self {
        Self { had: true, without: None }
    }

    /// There is a master.
    pub fn seen(&mut self) {
        *self = Self::of_running();
    }

    /// There is none, and ours has used so much processor time. Says whether it hangs.
    pub fn missed(&mut self, used: u64, now: Instant) -> bool {
        match self.without {
            Some((since, before)) if used.saturating_sub(before) < IDLE => {
                self.had && now.duration_since(since) >= PATIENCE
            }
            _ => {
                self.without = Some((now, used));
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
        let (start, mut vigil) = (Instant::now(), Vigil::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        // Never a master: the cable is not in.
        assert!(!vigil.missed(1, at(0)) && !vigil.missed(1, at(100)));
        vigil.seen();
        assert!(!vigil.missed(2, at(110)) && !vigil.missed(3, at(120)));
        assert!(vigil.missed(4, at(130)), "nothing for twenty seconds");
        // Busy: a large fabric.
        vigil.seen();
        assert!(!vigil.missed(100, at(200)) && !vigil.missed(700, at(220)) && !vigil.missed(701, at(230)));
        assert!(vigil.missed(702, at(240)));
        vigil.seen();
        assert!(!vigil.missed(703, at(250)));
    }
}
