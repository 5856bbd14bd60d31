//! The shape of the leader's work.

use crate::{ClusterSettings, Error, Reflector};
use ferroband_daemon::{error_chain, tasks::TaskSet};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{sync::Notify, time};
use tracing::{debug, info, warn};

/// The pause between two passes of one work: changes come in bursts, and one pass serves a whole burst.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The pauses after a failed pass.
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A pass is made this often even if nothing was seen to change.
const RESYNC_PERIOD: Duration = Duration::from_secs(300);

/// One piece of the leader's work.
pub trait Controller: Send + Sync + 'static {
    /// What it is called in the log.
    const NAME: &'static str;

    /// Make a pass: compare what should be with what is, by the caches, and write what differs. It returns when it
    /// wants another pass though nothing changes, if it does.
    ///
    /// A pass that finds everything in order writes nothing.
    fn reconcile(&self) -> impl Future<Output = Result<Option<Duration>, Error>> + Send;
}

/// What every work has to do with.
#[derive(Clone)]
pub struct ControllerContext {
    /// The API server.
    pub client: Client,
    /// How this daemon runs.
    pub settings: Arc<ClusterSettings>,
    recorder: Recorder,
}

impl ControllerContext {
    /// For this daemon.
    pub fn new(client: Client, settings: ClusterSettings) -> Self {
        let reporter = Reporter {
            controller: "ferroband-cluster".to_owned(),
            instance: Some(settings.identity.clone()),
        };
        let recorder = Recorder::new(client.clone(), reporter);
        Self { client, settings: Arc::new(settings), recorder }
    }

    /// Tell an event about `object`. Repetitions are counted on the same event. Failing to tell fails nothing.
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
            debug!(error = %error_chain(&e), "cannot tell the event");
        }
    }
}

/// Wakes a work.
#[derive(Clone, Default)]
pub struct Trigger(Arc<Notify>);

impl Trigger {
    /// On every change of `watched`.
    #[must_use]
    pub fn on_change<V: Send + Sync + 'static>(
        self,
        tasks: &mut TaskSet<Error>,
        watched: &Reflector<V>,
    ) -> Self {
        tasks.start_endless("waking", watched.notify_on_change(self.0.clone()));
        self
    }

    /// Now.
    pub fn fire(&self) {
        self.0.notify_one();
    }
}

/// Make passes of `work` whenever `wake` says so, for ever.
pub async fn run_controller<W: Controller>(work: W, wake: Trigger) {
    let mut pause = MIN_BACKOFF;
    let mut trouble = String::new();
    loop {
        let next = match work.reconcile().await {
            Ok(wish) => {
                if !trouble.is_empty() {
                    info!(work = W::NAME, "goes on");
                    trouble.clear();
                }
                pause = MIN_BACKOFF;
                wish.unwrap_or(RESYNC_PERIOD)
            }
            Err(e) => {
                let problem = error_chain(&e);
                // Once for each kind of trouble: this may go on for hours.
                if problem != trouble {
                    warn!(work = W::NAME, error = problem, "failed; trying again");
                    trouble = problem;
                }
                let wait = pause;
                pause = (pause * 2).min(MAX_BACKOFF);
                time::sleep(wait).await;
                Duration::ZERO
            }
        };
        // Either way; a work that is woken all the time still rests in between.
        let _ = time::timeout(next, wake.0.notified()).await;
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
    async fn a_burst_of_changes_is_one_pass_and_failures_get_rarer() {
        let passes = Arc::new(AtomicU32::new(0));
        let wake = Trigger::default();
        let keeping = tokio::spawn(run_controller(CountingController(passes.clone(), 0), wake.clone()));
        time::sleep(Duration::from_secs(1)).await;
        assert_eq!(passes.load(Ordering::Relaxed), 1);
        for _ in 0..100 {
            wake.fire();
            time::sleep(Duration::from_millis(1)).await;
        }
        time::sleep(Duration::from_secs(1)).await;
        assert!(passes.load(Ordering::Relaxed) <= 3, "{passes:?}");
        keeping.abort();

        let passes = Arc::new(AtomicU32::new(0));
        let keeping =
            tokio::spawn(run_controller(CountingController(passes.clone(), u32::MAX), Trigger::default()));
        time::sleep(Duration::from_secs(60)).await;
        assert!((5..=8).contains(&passes.load(Ordering::Relaxed)), "{passes:?}");
        keeping.abort();
    }
}
