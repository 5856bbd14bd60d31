//! What came of an errand.

use serde::Serialize;
use std::time::Duration;

/// Figures, and what each interface got.
#[derive(Debug, Default, Serialize)]
pub struct SwarmReport {
    /// Addresses assigned.
    pub assigned: Vec<SwarmAddress>,
    /// ADDs that failed and were made again, as a kubelet does.
    pub failures: usize,
    /// The last failure, for people.
    pub last_failure: Option<String>,
    /// From the first ADD to the last.
    pub seconds: f64,
    /// Of each ADD that went well, in order.
    #[serde(skip)]
    pub times: Vec<Duration>,
    /// Daemons that were killed.
    pub kills: usize,
}

/// One address, as the plugin printed it.
#[derive(Clone, Debug, Serialize)]
pub struct SwarmAddress {
    /// The node.
    pub node: String,
    /// The interface.
    pub interface: String,
    /// The sandbox.
    pub container: String,
    /// The address with its prefix length.
    pub address: String,
}

impl SwarmReport {
    /// Assigned in a second.
    pub fn rate(&self) -> f64 {
        self.assigned.len() as f64 / self.seconds.max(1e-9)
    }

    /// The time that this share of the ADDs did not exceed, in milliseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len().max(1)) - 1;
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let report = SwarmReport { times, ..SwarmReport::default() };
        assert_eq!((report.percentile(0.5), report.percentile(0.99)), (50.0, 99.0));
        assert_eq!(SwarmReport::default().percentile(0.5), 0.0);
    }
}
