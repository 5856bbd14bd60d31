//! The loop between a [`Programmer`] and its manager.

use crate::{Backoff, Error, FabricReport, PartitionReconciler, SubnetManager};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

/// How often everything is listed anew unless told otherwise; ib-kubernetes' period.
const DEFAULT_LIST_PERIOD: Duration = Duration::from_secs(5);

/// A programmer at work, shared between the loop and those who tell it what is wanted.
#[derive(Clone, Default)]
pub struct ReconcilerHandle {
    reconciler: Arc<Mutex<PartitionReconciler>>,
    wake: Arc<Notify>,
    list_period: Arc<AtomicU64>,
}

/// What is known of the manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubnetManagerHealth {
    /// What it told last; nothing before the first answer.
    pub fabric: Option<Arc<FabricReport>>,
    /// Why the last request failed, while it does.
    pub problem: Option<String>,
    /// Whether the credentials are refused.
    pub unauthorized: bool,
    /// Raised with every batch and list that ended.
    pub serial: u64,
}

impl ReconcilerHandle {
    /// The programmer, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, PartitionReconciler> {
        self.reconciler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often everything is listed anew although nothing failed.
    pub fn set_list_period(&self, period: Duration) {
        self.list_period.store(u64::try_from(period.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn list_period(&self) -> Duration {
        match self.list_period.load(Ordering::Relaxed) {
            0 => DEFAULT_LIST_PERIOD,
            millis => Duration::from_millis(millis),
        }
    }

    /// What is wanted has changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

type PartitionListResult = (u64, Result<FabricReport, Error>);

/// Keeps the manager as the programmer wants it; ends when the sender of managers goes.
pub async fn run_reconciler(
    running: ReconcilerHandle,
    mut managers: watch::Receiver<Arc<dyn SubnetManager>>,
    health: watch::Sender<SubnetManagerHealth>,
) {
    loop {
        let manager = managers.borrow_and_update().clone();
        info!(manager = manager.name(), "subnet manager");
        running.lock().reset();
        tokio::select! {
            changed = managers.changed() => if changed.is_err() { return },
            () = reconcile_with(&running, manager, &health) => {}
        }
    }
}

async fn reconcile_with(
    running: &ReconcilerHandle,
    manager: Arc<dyn SubnetManager>,
    health: &watch::Sender<SubnetManagerHealth>,
) {
    let pace = manager.rate_limits();
    let mut batches = JoinSet::new();
    let mut lists: JoinSet<PartitionListResult> = JoinSet::new();
    let mut list_at = Instant::now();
    let mut failures = 0;
    let mut last_batch: Option<Instant> = None;
    loop {
        let (now, period) = (Instant::now(), running.list_period());
        if now >= list_at && lists.is_empty() {
            let (manager, mark) = (manager.clone(), running.lock().begin_list());
            lists.spawn(async move { (mark, manager.observe().await) });
        }
        let rests =
            last_batch.map_or(Duration::ZERO, |last| (last + pace.interval).saturating_duration_since(now));
        if rests.is_zero() {
            for batch in running.lock().start_batches(now, pace) {
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
        if !rests.is_zero() {
            wait = wait.min(rests);
        }
        if let Some(next) = running.lock().next_retry(now) {
            wait = wait.min(next);
        }
        tokio::select! {
            Some(ended) = batches.join_next(), if !batches.is_empty() => {
                let Ok((batch, outcome)) = ended else { continue };
                let now = Instant::now();
                running.lock().finish_batch(&batch, &outcome, now);
                match &outcome {
                    Ok(()) => debug!(partitions = batch.changes.len(), "programmed"),
                    Err(error) => {
                        warn!(%error, "partitions are not programmed");
                        // What it has is to be heard before it is believed again.
                        list_at = list_at.min(now + Backoff::default().first);
                    }
                }
                report_health(health, outcome.as_ref().err(), None);
            }
            Some(ended) = lists.join_next(), if !lists.is_empty() => {
                let Ok((mark, outcome)) = ended else { continue };
                let now = Instant::now();
                match outcome {
                    Ok(fabric) => {
                        running.lock().record_list(mark, fabric.members.clone(), fabric.stale);
                        (failures, list_at) = (0, now + period);
                        report_health(health, None, Some(fabric));
                    }
                    Err(error) => {
                        if failures == 0 {
                            warn!(%error, "the subnet manager does not list its partitions");
                        }
                        failures += 1;
                        list_at = now + Backoff::default().after(failures);
                        report_health(health, Some(&error), None);
                    }
                }
            }
            () = running.wake.notified() => tokio::time::sleep(pace.window).await,
            () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
        }
    }
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
