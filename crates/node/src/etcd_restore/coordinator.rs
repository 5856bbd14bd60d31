//! Combines what this node, the leader and the evidence scan know about restores of etcd.

use crate::{address::AssignmentGate, partition::NodePartitionsSync};
use ferroband_api::ferroband::NodeAddressReport;
use ferroband_daemon::{AddressStateView, RevisionWatch};
use jiff::Timestamp;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;
use tracing::info;

/// How old the saved history may be. A daemon that was off for longer cannot know what its node missed.
const MAX_HISTORY_AGE: Duration = Duration::from_secs(600);

/// Opens and closes the gate, tells the evidence scan when to write entries again, and reports to the leader.
pub struct RestoreCoordinator {
    revisions: Arc<RevisionWatch>,
    view: watch::Receiver<AddressStateView>,
    gate: AssignmentGate,
    partitions: Arc<NodePartitionsSync>,
    /// Random text that the leader must confirm; empty if the history of this node is known.
    start: String,
    /// Epoch for which the evidence scan writes the entries of running pods.
    epoch: watch::Sender<String>,
    /// Epoch for which it has written them; `None` before the first scan.
    asserted: watch::Receiver<Option<String>>,
    /// Number of nodes of the cluster, for the allocator.
    node_count: Arc<AtomicUsize>,
}

impl RestoreCoordinator {
    /// Must be created before the first revision of etcd is observed.
    pub fn new(
        (revisions, view): (Arc<RevisionWatch>, watch::Receiver<AddressStateView>),
        gate: AssignmentGate,
        partitions: Arc<NodePartitionsSync>,
        (epoch, asserted): (watch::Sender<String>, watch::Receiver<Option<String>>),
        node_count: Arc<AtomicUsize>,
    ) -> Self {
        let is_known = revisions.history().is_recent(Timestamp::now(), MAX_HISTORY_AGE);
        let start = match is_known {
            true => String::new(),
            false => format!("{:016x}", RandomState::new().hash_one(())),
        };
        let coordinator = Self { revisions, view, gate, partitions, start, epoch, asserted, node_count };
        // Before NodePartitions is first written, so that it is written once.
        coordinator.update();
        coordinator
    }

    /// Never returns.
    pub async fn run(mut self) {
        let (mut history, mut own) = (self.revisions.changes(), self.partitions.own_object.changes());
        loop {
            self.update();
            let changed = tokio::select! {
                changed = self.view.changed() => changed,
                changed = history.changed() => changed,
                changed = self.asserted.changed() => changed,
                changed = own.changed() => changed,
            };
            if changed.is_err() {
                // The daemon is stopping.
                return std::future::pending().await;
            }
        }
    }

    fn update(&self) {
        let view = self.view.borrow().clone();
        let noticed = self.revisions.noticed();
        let asserted = self.asserted.borrow().clone();
        if let Some(state) = &view.state {
            let epoch = state.spec.epoch();
            self.epoch.send_if_modified(|current| {
                let is_new = current != epoch;
                epoch.clone_into(current);
                is_new
            });
            if let Ok(nodes @ 1..) = usize::try_from(state.spec.nodes) {
                self.node_count.store(nodes, Ordering::Relaxed);
            }
        }
        let report = NodeAddressReport {
            asserted_epoch: asserted.clone().unwrap_or_default(),
            noticed: noticed.clone(),
            start: self.start.clone(),
        };
        let was_open = self.gate.closed().is_none();
        self.gate.update(|inputs| {
            inputs.connected = view.connected;
            inputs.state = view.state;
            inputs.restore_noticed = noticed.is_some();
            inputs.asserted_epoch = asserted.unwrap_or_default();
            inputs.start_confirmed = self.is_start_confirmed();
        });
        match (was_open, self.gate.closed()) {
            (true, Some(reason)) => info!(%reason, "no new addresses are assigned"),
            (false, None) => info!("new addresses are assigned"),
            _ => {}
        }
        if self.partitions.state().report_addresses(report) {
            self.partitions.notify_changed();
        }
    }

    fn is_start_confirmed(&self) -> bool {
        let object = self.partitions.current_object();
        let status = object.as_ref().and_then(|object| object.status.as_ref());
        self.start.is_empty() || status.is_some_and(|status| status.confirmed_start == self.start)
    }
}

#[cfg(test)]
mod tests;
