//! The leader's part in a restore of etcd: one epoch per restore, and assignment again when every node is ready.
//!
//! ```text
//!  node or leader notices lower revisions ─▶ leader: new epoch, phase Asserting ─▶ AddressState ─▶ every node
//!  node: writes the entries of its pods again ─▶ NodePartitions: assertedEpoch ─▶ leader: phase Complete ─▶ every node
//! ```
//!
//! Nodes do not write the AddressState: a node that could would stop the assignment of the whole cluster.

mod step;

use crate::{ControllerContext, Error, node_liveness::NodeLiveness};
use ferroband_api::ferroband::{
    ADDRESS_STATE_NAME, AddressState, AddressStateSpec, EtcdRestore, NodePartitions, RestorePhase,
};
use ferroband_daemon::{
    AddressStateView, Controller, RevisionHistory, RevisionWatch, SharedCache, Trigger,
    api_call::with_timeout, apply, start_controller, tasks::TaskSet, watch_address_state,
};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use step::{
    MIN_ASSERTION_TIME, RestoreInputs, RestoreStep, newest_epoch, next_epoch, next_step, rounded_nodes,
};
use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

/// Field manager of the spec. The status has another one, which does not set these fields.
const SPEC_MANAGER: &str = "ferroband-restore";
/// How long a new leader waits before it confirms starts, unless it continues the term of another: nodes that know more
/// than the leader notice a restore in this time.
const CONFIRMATION_DELAY: Duration = Duration::from_secs(30);
/// Shortest time between two writes of the nodes that are missing. Every node receives each.
const MISSING_INTERVAL: Duration = Duration::from_secs(60);
/// Number of missing nodes that the status names.
const MAX_NAMED_NODES: usize = 20;

/// What a replica has learned about etcd since it started, whether or not it was the leader.
#[derive(Clone)]
pub struct EtcdHistory {
    pub revisions: Arc<RevisionWatch>,
    pub view: watch::Receiver<AddressStateView>,
    /// When the replica first knew a revision.
    pub known_since: Arc<Mutex<Option<Instant>>>,
}

impl EtcdHistory {
    /// Starts the watch of the AddressState. It runs until `tasks` ends.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let revisions = Arc::new(RevisionWatch::new(RevisionHistory::default()));
        let (sender, view) = watch::channel(AddressStateView::default());
        let watching = watch_address_state(context.client.clone(), revisions.clone(), sender);
        tasks.start_endless("AddressState watch", watching);
        let known_since = Arc::new(Mutex::new(None));
        let (first, mut connected) = (known_since.clone(), view.clone());
        tasks.start_endless("first revision", async move {
            if connected.wait_for(|view| view.connected).await.is_ok() {
                *first.lock() = Some(Instant::now());
            }
            std::future::pending::<()>().await;
        });
        Self { revisions, view, known_since }
    }
}

pub struct RestoreController {
    context: ControllerContext,
    history: EtcdHistory,
    liveness: NodeLiveness,
    node_partitions: SharedCache<NodePartitions>,
    /// Whether etcd was certainly not restored between the previous leader and this one.
    continues: bool,
    confirms_starts: watch::Sender<bool>,
    progress: Mutex<AssertionProgress>,
}

/// When the current epoch was first seen, and when the missing nodes were last written.
struct AssertionProgress {
    epoch: String,
    since: Instant,
    named_at: Option<Instant>,
}

impl RestoreController {
    pub fn start(
        context: &ControllerContext,
        (history, continues): (&EtcdHistory, bool),
        liveness: &NodeLiveness,
        node_partitions: &SharedCache<NodePartitions>,
        confirms_starts: watch::Sender<bool>,
        tasks: &mut TaskSet<Error>,
    ) {
        let trigger = Trigger::default().on_change(node_partitions).on_change(&liveness.nodes);
        let (wake, mut views, mut revisions) =
            (trigger.clone(), history.view.clone(), history.revisions.changes());
        tasks.start_endless("restore trigger", async move {
            let mut noticed = None;
            loop {
                tokio::select! {
                    changed = views.changed() => if changed.is_err() { break },
                    changed = revisions.wait_for(|history| history.noticed != noticed) => match changed {
                        Ok(history) => noticed = history.noticed.clone(),
                        Err(_) => break,
                    },
                }
                wake.fire();
            }
            std::future::pending::<()>().await;
        });
        let progress = AssertionProgress { epoch: String::new(), since: Instant::now(), named_at: None };
        let controller = Self {
            context: context.clone(),
            history: history.clone(),
            liveness: liveness.clone(),
            node_partitions: node_partitions.clone(),
            continues,
            confirms_starts,
            progress: Mutex::new(progress),
        };
        start_controller(tasks, controller, trigger);
    }

    /// Returns how long the leader has known `epoch`.
    fn known_for(&self, epoch: &str) -> Duration {
        let mut progress = self.progress.lock();
        if progress.epoch != epoch {
            *progress = AssertionProgress { epoch: epoch.to_owned(), since: Instant::now(), named_at: None };
        }
        progress.since.elapsed()
    }

    /// Writes the spec, unless somebody else wrote the object since it was read.
    async fn write_spec(&self, state: Option<&AddressState>, spec: &AddressStateSpec) -> Result<(), Error> {
        let api: Api<AddressState> = Api::all(self.context.client.clone());
        let version = state.and_then(AddressState::resource_version);
        let mut fields = json!({ "spec": spec });
        if let Some(version) = version {
            fields["metadata"]["resourceVersion"] = json!(version);
        }
        let applied = apply(&api, SPEC_MANAGER, ADDRESS_STATE_NAME, fields).await;
        applied.map(drop).map_err(Error::api("apply", "AddressState cluster"))
    }

    /// Names the nodes for which assignment waits. Not at once: usually all nodes assert in a few seconds.
    async fn name_missing(&self, before: &[String], missing: &[String]) -> Result<(), Error> {
        let named: Vec<&String> = missing.iter().take(MAX_NAMED_NODES).collect();
        let is_due = {
            let progress = self.progress.lock();
            missing.is_empty() || progress.named_at.unwrap_or(progress.since).elapsed() >= MISSING_INTERVAL
        };
        if !is_due || before.iter().eq(named.iter().copied()) {
            return Ok(());
        }
        if !missing.is_empty() {
            warn!(
                nodes = missing.len(),
                first = missing[0],
                "no new addresses until these nodes have written theirs again, are deleted, or are tainted node.kubernetes.io/out-of-service"
            );
        }
        self.progress.lock().named_at = Some(Instant::now());
        let api: Api<AddressState> = Api::all(self.context.client.clone());
        let patch = json!({"status": {"waitingNodes": named}});
        let params = PatchParams::default();
        let written =
            with_timeout(api.patch_status(ADDRESS_STATE_NAME, &params, &Patch::Merge(&patch))).await;
        written.map(drop).map_err(Error::api("patch the status of", "AddressState cluster"))
    }

    /// Time until starts may be confirmed; zero if the leader may confirm them now.
    fn confirmation_delay(&self) -> Duration {
        let known_since = *self.history.known_since.lock();
        match (self.continues, known_since) {
            (true, _) => Duration::ZERO,
            (false, Some(since)) => CONFIRMATION_DELAY.saturating_sub(since.elapsed()),
            (false, None) => CONFIRMATION_DELAY,
        }
    }
}

impl Controller for RestoreController {
    const NAME: &'static str = "etcd restore";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let view = self.history.view.borrow().clone();
        if !view.connected {
            self.confirms_starts.send_replace(false);
            return Ok(None);
        }
        let state = view.state.as_deref();
        let before = state.map(|state| state.spec.clone()).unwrap_or_default();
        let objects = self.node_partitions.list().into_iter();
        let reports: BTreeMap<_, _> =
            objects.map(|((_, node), object)| (node, object.spec.addresses.clone())).collect();
        let newest = newest_epoch(before.epoch(), &reports);
        let lost = self.liveness.find_lost(reports.keys().cloned().collect()).await;
        let known_for = self.known_for(before.epoch());
        let noticed = self.history.revisions.noticed();
        let step = next_step(&RestoreInputs {
            state: &before,
            noticed: noticed.as_ref(),
            reports,
            lost_nodes: &lost.nodes,
            known_for,
        });
        let delay = self.confirmation_delay();
        self.confirms_starts.send_if_modified(|confirms| {
            let next = step == RestoreStep::None && delay.is_zero() && state.is_some();
            std::mem::replace(confirms, next) != next
        });
        let mut spec = before.clone();
        spec.nodes = rounded_nodes(self.liveness.nodes.values().len(), before.nodes);
        match &step {
            RestoreStep::Begin { reason } => {
                warn!(reason, "etcd was restored; nodes write their addresses again");
                let (epoch, reason) =
                    (next_epoch(Timestamp::now(), &newest), reason.chars().take(1000).collect());
                spec.restore = Some(EtcdRestore { epoch, phase: RestorePhase::Asserting, reason });
            }
            RestoreStep::Complete => {
                info!("all nodes have written their addresses again; new addresses are assigned");
                if let Some(restore) = &mut spec.restore {
                    restore.phase = RestorePhase::Complete;
                }
            }
            RestoreStep::None | RestoreStep::Wait { .. } => {}
        }
        if spec != before || state.is_none() {
            self.write_spec(state, &spec).await?;
        }
        let named = state.and_then(|state| state.status.as_ref()).map(|status| status.waiting_nodes.clone());
        let missing = if let RestoreStep::Wait { missing } = &step { missing.as_slice() } else { &[] };
        self.name_missing(&named.unwrap_or_default(), missing).await?;
        let waiting = matches!(step, RestoreStep::Wait { .. });
        let assertion = waiting.then(|| match MIN_ASSERTION_TIME.saturating_sub(known_for) {
            Duration::ZERO => MISSING_INTERVAL,
            rest => rest,
        });
        let confirmation = Some(delay).filter(|delay| !delay.is_zero());
        Ok([assertion, confirmation, lost.recheck].into_iter().flatten().min())
    }
}

#[cfg(test)]
mod tests;
