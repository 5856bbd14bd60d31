//! Percentiles of durations.

use std::time::Duration;

/// Returns the duration in milliseconds that the given share of `times` does not exceed; 0 if there are none.
pub fn percentile_millis(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let position = (sorted.len() as f64 * share).ceil() as usize;
    let position = position.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(position).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_do_not_depend_on_the_order() {
        let times: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!((percentile_millis(&times, 0.5), percentile_millis(&times, 0.99)), (100.0, 198.0));
        assert_eq!(percentile_millis(&[], 0.5), 0.0);
    }
}
