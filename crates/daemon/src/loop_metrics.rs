//! Counters of the controllers and watches of this process.
//!
//! They are process-wide, because a watch or controller is one loop of the process, whoever started it. The node daemon
//! exports them; the cluster daemon has no exporter yet.

use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt::Write, time::Duration};

static COUNTERS: Mutex<BTreeMap<(LoopMetric, &'static str), u64>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LoopMetric {
    ControllerPasses,
    ControllerFailures,
    ControllerMilliseconds,
    WatchRestarts,
}

impl LoopMetric {
    /// Name of the Prometheus metric, its help text, and the label that names the loop.
    fn describe(self) -> [&'static str; 3] {
        match self {
            Self::ControllerPasses => {
                ["ferroband_controller_passes_total", "Passes of a controller.", "controller"]
            }
            Self::ControllerFailures => {
                ["ferroband_controller_failures_total", "Failed passes of a controller.", "controller"]
            }
            Self::ControllerMilliseconds => {
                ["ferroband_controller_duration_seconds_total", "Duration of all passes.", "controller"]
            }
            Self::WatchRestarts => {
                ["ferroband_watch_restarts_total", "Restarts of a watch after an error.", "watch"]
            }
        }
    }
}

/// Renders all counters in the Prometheus exposition format.
pub fn render_loop_metrics() -> String {
    let (mut out, mut previous) = (String::new(), None);
    for ((metric, name), value) in COUNTERS.lock().iter() {
        let [family, help, label] = metric.describe();
        // Writing to a String cannot fail.
        if previous.replace(*metric) != Some(*metric) {
            let _ = writeln!(out, "# HELP {family} {help}\n# TYPE {family} counter");
        }
        let _ = write!(out, "{family}{{{label}=\"{name}\"}} ");
        let _ = match metric {
            LoopMetric::ControllerMilliseconds => writeln!(out, "{}.{:03}", value / 1000, value % 1000),
            _ => writeln!(out, "{value}"),
        };
    }
    out
}

/// Counts a pass of a controller.
pub(crate) fn count_pass(controller: &'static str, failed: bool, duration: Duration) {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    add(LoopMetric::ControllerPasses, controller, 1);
    add(LoopMetric::ControllerFailures, controller, u64::from(failed));
    add(LoopMetric::ControllerMilliseconds, controller, milliseconds);
}

/// Adds to the restarts of a watch; `restarts` is 0 when the watch starts, so that its counter exists.
pub(crate) fn count_restarts(watch: &'static str, restarts: u64) {
    add(LoopMetric::WatchRestarts, watch, restarts);
}

fn add(metric: LoopMetric, name: &'static str, value: u64) {
    let mut counters = COUNTERS.lock();
    let counter = counters.entry((metric, name)).or_default();
    *counter = counter.saturating_add(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rendered_with_one_header_for_each_metric() {
        count_pass("loop a", false, Duration::from_millis(1234));
        count_pass("loop a", true, Duration::from_millis(6));
        count_pass("loop b", true, Duration::ZERO);
        count_restarts("watch a", 0);
        let text = render_loop_metrics();
        for line in [
            "ferroband_controller_passes_total{controller=\"loop a\"} 2",
            "ferroband_controller_failures_total{controller=\"loop a\"} 1",
            "ferroband_controller_duration_seconds_total{controller=\"loop a\"} 1.240",
            "ferroband_controller_failures_total{controller=\"loop b\"} 1",
            "ferroband_watch_restarts_total{watch=\"watch a\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
        }
        assert_eq!((text.matches("# HELP").count(), text.matches("# TYPE").count()), (4, 4), "{text}");
    }
}
