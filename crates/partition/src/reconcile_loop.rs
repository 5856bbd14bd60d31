//! The loop that connects a [`PartitionReconciler`] to its subnet manager.

use crate::{Backoff, Error, FabricReport, PartitionReconciler, SubnetManager};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

/// Default interval at which the memberships are read from the subnet manager, as in ib-kubernetes.
const DEFAULT_LIST_PERIOD: Duration = Duration::from_secs(5);

/// Minimum pause between two lists, as a multiple of their duration. A list of a large fabric costs the subnet manager
/// seconds of work. The shorter of the last two lists counts: one that waited for the end of an outage must not delay
/// the next one by minutes.
const MIN_LIST_PAUSE_FACTOR: u32 = 10;
/// Maximum pause after a failed list. A list that timed out is not repeated at once, because the subnet manager may
/// still be working on it.
const MAX_FAILED_LIST_PAUSE: Duration = Duration::from_secs(60);

/// Pause before an answer that is not believed yet is compared with the next one.
const CONFIRM_PAUSE: Duration = Duration::from_secs(1);

/// A running reconciler, shared between the reconcile loop and the callers that set the desired memberships.
#[derive(Clone, Default)]
pub struct ReconcilerHandle {
    reconciler: Arc<Mutex<PartitionReconciler>>,
    wake: Arc<Notify>,
    list_period: Arc<AtomicU64>,
}

/// State of the subnet manager connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubnetManagerHealth {
    /// State of the fabric, as last read from the subnet manager. `None` until it has been read once.
    pub fabric: Option<Arc<FabricReport>>,
    /// Message of the last failed request to the subnet manager. `None` after a request succeeds.
    pub problem: Option<String>,
    /// Whether the subnet manager rejects the credentials.
    pub unauthorized: bool,
    /// Incremented after every batch of changes that is sent and every time that the memberships are read,
    /// whether it succeeded or not.
    pub serial: u64,
}

impl ReconcilerHandle {
    pub fn lock(&self) -> MutexGuard<'_, PartitionReconciler> {
        self.reconciler.lock()
    }

    /// Sets the interval at which the memberships are read from the subnet manager. Zero selects the default. If a read
    /// takes long, the interval is longer.
    pub fn set_list_period(&self, period: Duration) {
        self.list_period.store(u64::try_from(period.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn list_period(&self) -> Duration {
        match self.list_period.load(Ordering::Relaxed) {
            0 => DEFAULT_LIST_PERIOD,
            millis => Duration::from_millis(millis),
        }
    }

    /// Wakes up the reconcile loop after the desired memberships changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Sequence number of the list, its result, and how long it took.
type PartitionListResult = (u64, Result<FabricReport, Error>, Duration);

/// Runs the reconcile loop until the sender of `managers` is dropped. For every new subnet manager, starts
/// again without observed memberships.
pub async fn run_reconciler(
    handle: ReconcilerHandle,
    mut managers: watch::Receiver<Arc<dyn SubnetManager>>,
    health: watch::Sender<SubnetManagerHealth>,
) {
    loop {
        let manager = managers.borrow_and_update().clone();
        info!(manager = manager.name(), "using subnet manager");
        handle.lock().reset();
        tokio::select! {
            changed = managers.changed() => if changed.is_err() { return },
            () = reconcile_with(&handle, manager, &health) => {}
        }
    }
}

async fn reconcile_with(
    handle: &ReconcilerHandle,
    manager: Arc<dyn SubnetManager>,
    health: &watch::Sender<SubnetManagerHealth>,
) {
    let limits = manager.rate_limits();
    let mut batches = JoinSet::new();
    let mut lists: JoinSet<PartitionListResult> = JoinSet::new();
    let mut list_at = Instant::now();
    let mut failures = 0;
    let mut last_duration: Option<Duration> = None;
    let mut last_batch: Option<Instant> = None;
    loop {
        let (now, period) = (Instant::now(), handle.list_period());
        if now >= list_at && lists.is_empty() {
            let (manager, mark) = (manager.clone(), handle.lock().begin_list());
            lists.spawn(async move { (mark, manager.observe().await, now.elapsed()) });
        }
        let delay =
            last_batch.map_or(Duration::ZERO, |last| (last + limits.interval).saturating_duration_since(now));
        if delay.is_zero() {
            for batch in handle.lock().start_batches(now, limits) {
                last_batch = Some(now);
                let manager = manager.clone();
                batches.spawn(async move {
                    let outcome = manager.apply(batch.clone()).await;
                    (batch, outcome)
                });
            }
        }
        let mut wait = period;
        if lists.is_empty() {
            wait = wait.min(list_at.saturating_duration_since(now));
        }
        if !delay.is_zero() {
            wait = wait.min(delay);
        }
        if let Some(next) = handle.lock().next_retry(now) {
            wait = wait.min(next);
        }
        tokio::select! {
            Some(finished) = batches.join_next(), if !batches.is_empty() => {
                let Ok((batch, outcome)) = finished else { continue };
                let now = Instant::now();
                handle.lock().finish_batch(&batch, &outcome, now);
                match &outcome {
                    Ok(()) => debug!(partitions = batch.changes.len(), "partition changes sent"),
                    Err(error) => {
                        warn!(%error, "cannot change partitions in the subnet manager, retrying");
                        // The batch may have been applied or not, so read the memberships from the subnet
                        // manager soon.
                        list_at = list_at.min(now + Backoff::default().first);
                    }
                }
                report_health(health, outcome.as_ref().err(), None);
            }
            Some(finished) = lists.join_next(), if !lists.is_empty() => {
                let Ok((mark, outcome, took)) = finished else { continue };
                let now = Instant::now();
                match outcome {
                    Ok(fabric) => {
                        let doubt = handle.lock().record_list(mark, &fabric);
                        if let Some(doubt) = doubt {
                            warn!(%doubt, "answer of the subnet manager not believed yet");
                            list_at = now + CONFIRM_PAUSE.min(period).max(took);
                            report_health(health, None, with_warning(health, doubt.to_string()));
                            continue;
                        }
                        let usual = last_duration.replace(took).map_or(took, |last| last.min(took));
                        (failures, list_at) = (0, now + period.max(usual * MIN_LIST_PAUSE_FACTOR));
                        report_health(health, None, Some(fabric));
                    }
                    Err(error) => {
                        if failures == 0 {
                            warn!(%error, "cannot list partitions of the subnet manager, retrying");
                        }
                        failures += 1;
                        let pause = Backoff::default().after(failures);
                        list_at = now + pause.max(took.min(MAX_FAILED_LIST_PAUSE));
                        report_health(health, Some(&error), None);
                    }
                }
            }
            () = handle.wake.notified() => tokio::time::sleep(limits.window).await,
            () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
        }
    }
}

/// Returns the last report that was believed, with a warning.
fn with_warning(health: &watch::Sender<SubnetManagerHealth>, warning: String) -> Option<FabricReport> {
    let mut fabric = FabricReport::clone(health.borrow().fabric.as_ref()?);
    if !fabric.warnings.contains(&warning) {
        fabric.warnings.push(warning);
    }
    Some(fabric)
}

fn report_health(
    health: &watch::Sender<SubnetManagerHealth>,
    error: Option<&Error>,
    fabric: Option<FabricReport>,
) {
    health.send_modify(|health| {
        health.serial += 1;
        health.problem = error.map(ToString::to_string);
        health.unauthorized = error.is_some_and(Error::is_unauthorized);
        if let Some(fabric) = fabric {
            health.fabric = Some(Arc::new(fabric));
        }
    });
}

#[cfg(test)]
mod tests;
