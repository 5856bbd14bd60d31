//! Latencies of a simulated API server, drawn from a seeded distribution.

use std::time::Duration;

/// Median of a request's duration. A request to an API server whose etcd writes to an SSD takes about this long.
const MEDIAN_MILLIS: f64 = 6.0;
/// Standard deviation of the logarithm. The 99th percentile is four times the median.
const SIGMA: f64 = 0.6;

/// A generator of random numbers (SplitMix64). The same seed gives the same run.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number above 0 and at most 1.
    pub fn next_share(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws the duration of one request from a log-normal distribution (Box-Muller).
    pub fn request_duration(&mut self) -> Duration {
        let (radius, angle) = (self.next_share(), self.next_share());
        let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        Duration::from_secs_f64(MEDIAN_MILLIS / 1000.0 * (SIGMA * normal).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentile_millis;

    #[test]
    fn durations_have_the_configured_median_and_the_same_seed_gives_the_same_ones() {
        let draw = |seed| {
            let mut random = SeededRandom::new(seed);
            (0..10_000).map(|_| random.request_duration()).collect::<Vec<_>>()
        };
        let durations = draw(1);
        assert_eq!(durations, draw(1));
        assert_ne!(durations, draw(2));
        let (median, p99) = (percentile_millis(&durations, 0.5), percentile_millis(&durations, 0.99));
        assert!((5.7..6.3).contains(&median), "{median}");
        assert!((21.0..28.0).contains(&p99), "{p99}");
    }
}
