//! The loop that all controllers share.
//!
//! kube's `Controller` is not used: it reconciles one object at a time, and our controllers decide about all objects of
//! a kind together (docs/decisions/0062).

use crate::{
    Retry, catch_panic_async, loop_metrics,
    tasks::{TaskEnded, TaskSet},
    watch_cache::WatchCache,
};
use futures::{FutureExt, future::select_all};
use std::{error::Error, future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, watch},
    time::{self, Instant},
};
use tracing::{error, info, warn};

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

/// Wakes a controller, which then runs one pass. Several triggers before a pass cause only one pass. The first pass runs
/// when all caches of the trigger are synced: until then, existing objects seem to be absent.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    fired: Arc<Notify>,
    changes: Vec<watch::Receiver<u64>>,
    required: Vec<watch::Receiver<u64>>,
}

impl Trigger {
    /// Adds a cache. Each of its changes triggers a pass.
    #[must_use]
    pub fn on_change<V>(mut self, cache: &WatchCache<V>) -> Self {
        self.changes.push(cache.changes());
        self
    }

    /// Adds a cache that the passes read, but whose changes trigger none.
    #[must_use]
    pub fn after_sync<V>(mut self, cache: &WatchCache<V>) -> Self {
        self.required.push(cache.changes());
        self
    }

    pub fn fire(&self) {
        self.fired.notify_one();
    }

    async fn wait_synced(&mut self) {
        for cache in self.changes.iter_mut().chain(&mut self.required) {
            let _ = cache.wait_for(|changes| *changes > 0).await;
        }
    }

    /// Forgets all changes so far, which the next pass will see.
    fn mark_seen(&mut self) {
        self.changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
    }

    /// Waits for a change that is not seen yet.
    async fn wait(&mut self) {
        // `changed` cannot fail: the controller owns the caches.
        let changes = self.changes.iter_mut().map(|cache| cache.changed().map(drop).boxed());
        select_all(changes.chain([self.fired.notified().boxed()])).await;
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
///
/// A pass that panics has failed. An object of a tenant may cause the panic: if it ended the process, it would end the
/// next leader as well, and all other controllers with it.
pub async fn run_controller<C: Controller>(controller: C, mut trigger: Trigger) {
    let ControllerTiming { debounce, resync, backoff } = C::TIMING;
    let mut retry = Retry::new(backoff.0, backoff.1);
    trigger.wait_synced().await;
    loop {
        trigger.mark_seen();
        let start = Instant::now();
        let result = catch_panic_async(controller.reconcile()).await;
        loop_metrics::count_pass(C::NAME, !matches!(result, Ok(Ok(_))), start.elapsed());
        let next = match result {
            Ok(Ok(requeue_after)) => {
                if retry.succeeded() {
                    info!(controller = C::NAME, "recovered");
                }
                requeue_after.unwrap_or(resync)
            }
            Ok(Err(e)) => {
                if let Some(error) = retry.news(&e) {
                    warn!(controller = C::NAME, error, "reconciliation failed; retrying");
                }
                retry.pause().await;
                Duration::ZERO
            }
            Err(panic) => {
                if let Some(error) = retry.news(&panic) {
                    error!(controller = C::NAME, error, "reconciliation failed; retrying");
                }
                retry.pause().await;
                Duration::ZERO
            }
        };
        // Sleep after a trigger as well as after a timeout, so that a controller that is triggered all the time still
        // pauses between two passes.
        let _ = time::timeout(next, trigger.wait()).await;
        time::sleep(debounce).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render_loop_metrics;
    use kube::runtime::watcher::Event;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Counts its passes. The first ones fail, as many as the number says.
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

        let counted = format!("ferroband_controller_failures_total{{controller=\"counting\"}} {failed}\n");
        assert!(render_loop_metrics().contains(&counted), "{counted}");
    }

    /// Panics in its first pass.
    struct PanickingController(Arc<AtomicU32>);

    impl Controller for PanickingController {
        const NAME: &'static str = "panicking";
        type Error = TaskEnded;

        async fn reconcile(&self) -> Result<Option<Duration>, TaskEnded> {
            time::sleep(Duration::from_millis(1)).await;
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "an object of a tenant");
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_panics_is_repeated() {
        let passes = Arc::new(AtomicU32::new(0));
        let task = tokio::spawn(run_controller(PanickingController(passes.clone()), Trigger::default()));
        time::sleep(Duration::from_secs(10)).await;
        assert!(!task.is_finished());
        assert_eq!(passes.load(Ordering::Relaxed), 2);
        assert!(
            render_loop_metrics()
                .contains("ferroband_controller_failures_total{controller=\"panicking\"} 1\n")
        );
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn passes_begin_when_the_caches_are_synced_and_follow_their_changes() {
        let (watched, read) = (WatchCache::default(), WatchCache::<u8>::default());
        let passes = Arc::new(AtomicU32::new(0));
        let trigger = Trigger::default().on_change(&watched).after_sync(&read);
        let task = tokio::spawn(run_controller(CountingController(passes.clone(), 0), trigger));
        let expect = async |number| {
            time::sleep(Duration::from_secs(1)).await;
            assert_eq!(passes.load(Ordering::Relaxed), number);
        };
        watched.apply(Event::InitDone);
        expect(0).await;
        read.apply(Event::InitDone);
        expect(1).await;
        read.apply(Event::Apply((Default::default(), Some(1))));
        expect(1).await;
        watched.apply(Event::Apply((Default::default(), Some(1))));
        expect(2).await;
        task.abort();
    }
}
