//! How long to wait after failures.

use std::time::Duration;

/// Waits that double from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer.
    pub longest: Duration,
}

impl Backoff {
    /// The wait after this many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), longest: Duration::from_secs(15) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_longest() {
        let backoff = Backoff::default();
        let waits: Vec<_> = (1..8).map(|failures| backoff.after(failures).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 15000, 15000]);
        assert_eq!(backoff.after(u32::MAX), backoff.longest);
        assert_eq!(backoff.after(0), backoff.first);
    }
}
