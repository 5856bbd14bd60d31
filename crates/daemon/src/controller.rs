//! The loop that all controllers share.
//!
//! kube's `Controller` is not used: it reconciles one object at a time, and our controllers decide about all objects of
//! a kind together (docs/decisions/0062).

use crate::{
    Retry, loop_metrics,
    tasks::{TaskEnded, TaskSet},
    watch_cache::WatchCache,
};
use std::{error::Error, future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{self, Instant},
};
use tracing::{info, warn};

/// When a controller runs.
#[derive(Clone, Copy, Debug)]
pub struct ControllerTiming {
    /// Pause between a trigger and the pass. Changes come in bursts, and one pass handles a whole burst.
    pub debounce: Duration,
    /// Maximum time between two passes, even if nothing triggers one.
    pub resync: Duration,
    /// Pause after the first failed pass, and its maximum. It doubles with each further failure.
    pub backoff: (Duration, Duration),
}

impl ControllerTiming {
    pub const DEFAULT: Self = Self {
        debounce: Duration::from_millis(100),
        resync: Duration::from_secs(300),
        backoff: (Duration::from_millis(500), Duration::from_secs(30)),
    };
}

/// Brings API objects, or the node, to the desired state in passes.
pub trait Controller: Send + Sync + 'static {
    /// The controller's name in the log and in metrics.
    const NAME: &'static str;
    const TIMING: ControllerTiming = ControllerTiming::DEFAULT;
    type Error: Error + Send;

    /// Runs one pass: compares the desired state with the caches and writes the difference. May return a time after
    /// which the next pass must run even if nothing changes.
    ///
    /// A pass that finds no difference writes nothing.
    fn reconcile(&self) -> impl Future<Output = Result<Option<Duration>, Self::Error>> + Send;
}

/// Wakes a controller, which then runs one pass. Several triggers before a pass cause only one pass.
#[derive(Clone, Debug, Default)]
pub struct Trigger(Arc<Notify>);

impl Trigger {
    /// Adds a task that triggers a pass on every change of `cache`.
    #[must_use]
    pub fn on_change<V: 'static, E>(self, tasks: &mut TaskSet<E>, cache: &WatchCache<V>) -> Self
    where
        E: Error + From<TaskEnded> + Send + 'static,
    {
        tasks.start_endless("controller trigger", self.clone().follow(cache));
        self
    }

    /// Returns a future that triggers a pass on every change of `cache`. It must be polled, and never completes while
    /// the cache exists.
    pub fn follow<V>(self, cache: &WatchCache<V>) -> impl Future<Output = ()> + Send + use<V> {
        let mut changes = cache.changes();
        async move {
            while changes.changed().await.is_ok() {
                self.fire();
            }
        }
    }

    pub fn fire(&self) {
        self.0.notify_one();
    }
}

/// Starts a task that runs `controller` after every trigger.
pub fn start_controller<C, E>(tasks: &mut TaskSet<E>, controller: C, trigger: Trigger)
where
    C: Controller,
    E: Error + From<TaskEnded> + Send + 'static,
{
    tasks.start_endless(C::NAME, run_controller(controller, trigger));
}

/// Runs a pass of `controller` after every trigger. After a failed pass, the next one follows with backoff.
/// Never returns.
pub async fn run_controller<C: Controller>(controller: C, trigger: Trigger) {
    let ControllerTiming { debounce, resync, backoff } = C::TIMING;
    let mut retry = Retry::new(backoff.0, backoff.1);
    loop {
        let start = Instant::now();
        let result = controller.reconcile().await;
        loop_metrics::count_pass(C::NAME, result.is_err(), start.elapsed());
        let next = match result {
            Ok(requeue_after) => {
                if retry.succeeded() {
                    info!(controller = C::NAME, "recovered");
                }
                requeue_after.unwrap_or(resync)
            }
            Err(e) => {
                if let Some(error) = retry.news(&e) {
                    warn!(controller = C::NAME, error, "reconciliation failed; retrying");
                }
                retry.pause().await;
                Duration::ZERO
            }
        };
        // Sleep after a trigger as well as after a timeout, so that a controller that is triggered all the time still
        // pauses between two passes.
        let _ = time::timeout(next, trigger.0.notified()).await;
        time::sleep(debounce).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_metrics::{LoopMetric, loop_counters};
    use std::sync::atomic::{AtomicU32, Ordering};

    struct CountingController(Arc<AtomicU32>, u32);

    impl Controller for CountingController {
        const NAME: &'static str = "counting";
        type Error = TaskEnded;

        async fn reconcile(&self) -> Result<Option<Duration>, TaskEnded> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            if number < self.1 {
                return Err(TaskEnded { task: "x", source: None });
            }
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_changes_is_one_pass_and_failures_back_off() {
        let passes = Arc::new(AtomicU32::new(0));
        let trigger = Trigger::default();
        let task = tokio::spawn(run_controller(CountingController(passes.clone(), 0), trigger.clone()));
        time::sleep(Duration::from_secs(1)).await;
        assert_eq!(passes.load(Ordering::Relaxed), 1);
        for _ in 0..100 {
            trigger.fire();
            time::sleep(Duration::from_millis(1)).await;
        }
        time::sleep(Duration::from_secs(1)).await;
        let number = passes.load(Ordering::Relaxed);
        assert!(number <= 3, "{number}");
        task.abort();

        let failures = Arc::new(AtomicU32::new(0));
        let task =
            tokio::spawn(run_controller(CountingController(failures.clone(), u32::MAX), Trigger::default()));
        time::sleep(Duration::from_secs(60)).await;
        let failed = failures.load(Ordering::Relaxed);
        assert!((5..=8).contains(&failed), "{failed}");
        task.abort();

        let counted: Vec<_> =
            loop_counters().into_iter().filter(|(_, name, _)| *name == "counting").collect();
        let of = |metric| counted.iter().find(|(counted, ..)| *counted == metric).unwrap().2;
        assert_eq!(of(LoopMetric::ControllerPasses), u64::from(number + failed));
        assert_eq!(of(LoopMetric::ControllerFailures), u64::from(failed));
    }
}
