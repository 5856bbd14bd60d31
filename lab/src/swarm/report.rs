//! Results of a workload.

use serde::Serialize;
use std::time::Duration;

/// Figures and assigned addresses.
#[derive(Debug, Default, Serialize)]
pub struct SwarmReport {
    /// Assigned addresses.
    pub assigned: Vec<SwarmAddress>,
    /// ADDs that failed and were retried.
    pub failures: usize,
    /// Message of the last failure.
    pub last_failure: Option<String>,
    /// Total time.
    pub seconds: f64,
    /// Durations of successful ADDs, in order.
    #[serde(skip)]
    pub times: Vec<Duration>,
    /// Number of killed daemons.
    pub kills: usize,
}

/// One address, as the plugin printed it.
#[derive(Clone, Debug, Serialize)]
pub struct SwarmAddress {
    pub node: String,
    pub interface: String,
    /// Sandbox ID.
    pub container: String,
    /// Address with prefix length.
    pub address: String,
}

impl SwarmReport {
    /// Addresses per second.
    pub fn rate(&self) -> f64 {
        self.assigned.len() as f64 / self.seconds.max(1e-9)
    }

    /// Percentile of the ADD durations in milliseconds.
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
    fn percentiles_are_computed_from_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let report = SwarmReport { times, ..SwarmReport::default() };
        assert_eq!((report.percentile(0.5), report.percentile(0.99)), (50.0, 99.0));
        assert_eq!(SwarmReport::default().percentile(0.5), 0.0);
    }
}
