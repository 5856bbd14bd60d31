//! The controller loop that all of the leader's controllers share.

use crate::{ClusterSettings, Error, Reflector};
use ferroband_daemon::{error_chain, tasks::TaskSet};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{sync::Notify, time};
use tracing::{debug, info, warn};

/// Pause between a trigger and the controller's pass. Changes come in bursts, and one pass handles a whole
/// burst.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after a controller's first failed pass. It doubles with each further failure, up to `MAX_BACKOFF`.
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Maximum time between two passes of a controller, even if no watched object changes.
const RESYNC_PERIOD: Duration = Duration::from_secs(300);

/// A controller. Only the leader runs it.
pub trait Controller: Send + Sync + 'static {
    /// The controller's name in the log.
    const NAME: &'static str;

    /// Runs one pass: compares the desired state with the caches and writes the difference. May return a time after
    /// which the next pass must run even if nothing changes.
    ///
    /// A pass that finds no difference writes nothing.
    fn reconcile(&self) -> impl Future<Output = Result<Option<Duration>, Error>> + Send;
}

/// API client, settings and event publisher, which every controller needs.
#[derive(Clone)]
pub struct ControllerContext {
    pub client: Client,
    pub settings: Arc<ClusterSettings>,
    recorder: Recorder,
}

impl ControllerContext {
    pub fn new(client: Client, settings: ClusterSettings) -> Self {
        let reporter = Reporter {
            controller: "ferroband-cluster".to_owned(),
            instance: Some(settings.identity.clone()),
        };
        let recorder = Recorder::new(client.clone(), reporter);
        Self { client, settings: Arc::new(settings), recorder }
    }

    /// Publishes an event about `object`. If the same event is published again, its count is incremented. Errors are
    /// only logged.
    pub async fn publish_event<K>(&self, object: &K, kind: EventType, reason: &str, note: String)
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        let about = object.object_ref(&K::DynamicType::default());
        if let Err(e) = self.recorder.publish(&event, &about).await {
            debug!(error = %error_chain(&e), "cannot publish event");
        }
    }
}

/// Wakes a controller, which then runs one pass. Several triggers before a pass cause only one pass.
#[derive(Clone, Default)]
pub struct Trigger(Arc<Notify>);

impl Trigger {
    /// Adds a task that triggers a pass on every change of `watched`.
    #[must_use]
    pub fn on_change<V: Send + Sync + 'static>(
        self,
        tasks: &mut TaskSet<Error>,
        watched: &Reflector<V>,
    ) -> Self {
        tasks.start_endless("controller trigger", watched.notify_on_change(self.0.clone()));
        self
    }

    pub fn fire(&self) {
        self.0.notify_one();
    }
}

/// Runs a pass of `controller` after every trigger. After a failed pass, the next one follows with backoff.
/// Never returns.
pub async fn run_controller<W: Controller>(controller: W, trigger: Trigger) {
    let mut pause = MIN_BACKOFF;
    let mut last_error = String::new();
    loop {
        let next = match controller.reconcile().await {
            Ok(requeue_after) => {
                if !last_error.is_empty() {
                    info!(controller = W::NAME, "recovered");
                    last_error.clear();
                }
                pause = MIN_BACKOFF;
                requeue_after.unwrap_or(RESYNC_PERIOD)
            }
            Err(e) => {
                let problem = error_chain(&e);
                // Log an error only when it changes, because the same error may last for hours.
                if problem != last_error {
                    warn!(controller = W::NAME, error = problem, "reconciliation failed; retrying");
                    last_error = problem;
                }
                let wait = pause;
                pause = (pause * 2).min(MAX_BACKOFF);
                time::sleep(wait).await;
                Duration::ZERO
            }
        };
        // Sleep after a trigger as well as after a timeout, so that a controller that is triggered all the time still
        // pauses between two passes.
        let _ = time::timeout(next, trigger.0.notified()).await;
        time::sleep(DEBOUNCE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct CountingController(Arc<AtomicU32>, u32);

    impl Controller for CountingController {
        const NAME: &'static str = "counting";

        async fn reconcile(&self) -> Result<Option<Duration>, Error> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            if number < self.1 {
                return Err(ferroband_daemon::tasks::TaskEnded { task: "x", source: None }.into());
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
        assert!(passes.load(Ordering::Relaxed) <= 3, "{passes:?}");
        task.abort();

        let passes = Arc::new(AtomicU32::new(0));
        let task =
            tokio::spawn(run_controller(CountingController(passes.clone(), u32::MAX), Trigger::default()));
        time::sleep(Duration::from_secs(60)).await;
        assert!((5..=8).contains(&passes.load(Ordering::Relaxed)), "{passes:?}");
        task.abort();
    }
}
