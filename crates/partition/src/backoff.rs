//! Exponential backoff between retries of failed requests to the subnet manager.

use std::time::Duration;

/// Delays that double from `first` up to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Upper limit of the delay, reached after several consecutive failures.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the delay after this many consecutive failures.
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
    fn delay_doubles_up_to_the_maximum() {
        let backoff = Backoff::default();
        let waits: Vec<_> = (1..8).map(|failures| backoff.after(failures).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 15000, 15000]);
        assert_eq!(backoff.after(u32::MAX), backoff.longest);
        assert_eq!(backoff.after(0), backoff.first);
    }
}
