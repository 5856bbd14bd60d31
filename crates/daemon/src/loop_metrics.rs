//! Counters of the controllers and watches of this process.
//!
//! They are process-wide, because a watch or controller is one loop of the process, whoever started it. The node daemon
//! exports them; the cluster daemon has no exporter yet.

use parking_lot::Mutex;
use std::{collections::BTreeMap, time::Duration};

static COUNTERS: Mutex<BTreeMap<(LoopMetric, &'static str), u64>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopMetric {
    ControllerPasses,
    ControllerFailures,
    ControllerMilliseconds,
    WatchRestarts,
}

impl LoopMetric {
    /// Name of the Prometheus metric, its help text, and the label that names the loop.
    pub fn describe(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ControllerPasses => {
                ("ferroband_controller_passes_total", "Passes of a controller.", "controller")
            }
            Self::ControllerFailures => (
                "ferroband_controller_failures_total",
                "Passes of a controller that failed and were retried.",
                "controller",
            ),
            Self::ControllerMilliseconds => (
                "ferroband_controller_duration_milliseconds_total",
                "Total duration of the passes of a controller.",
                "controller",
            ),
            Self::WatchRestarts => (
                "ferroband_watch_restarts_total",
                "Restarts of a watch of API objects after an error.",
                "watch",
            ),
        }
    }
}

/// Returns all counters with the name of their loop.
pub fn loop_counters() -> Vec<(LoopMetric, &'static str, u64)> {
    COUNTERS.lock().iter().map(|((metric, name), value)| (*metric, *name, *value)).collect()
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
