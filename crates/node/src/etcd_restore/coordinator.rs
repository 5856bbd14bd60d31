//! Combines what this node, the leader and the evidence scan know about restores of etcd.

use crate::{address::AssignmentGate, partition::NodePartitionsSync};
use ferroband_api::ferroband::NodeAddressReport;
use ferroband_daemon::{AddressStateView, RevisionWatch};
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;
use tracing::info;

/// Opens and closes the gate, tells the evidence scan when to write entries again, and reports to the leader.
pub struct RestoreCoordinator {
    revisions: Arc<RevisionWatch>,
    view: watch::Receiver<AddressStateView>,
    gate: AssignmentGate,
    partitions: Arc<NodePartitionsSync>,
    /// Number of gaps in the history that the leader has not confirmed, and a random text that it must confirm; empty if
    /// there is none.
    start: Mutex<(u64, String)>,
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
        let start = Mutex::new((revisions.history().confirmed_gaps, String::new()));
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
        let history = self.revisions.history();
        let noticed = history.noticed.clone();
        let start = self.start_text(history.gaps);
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
            start: start.clone(),
        };
        let is_confirmed = self.is_confirmed(&start);
        if is_confirmed && history.gaps != history.confirmed_gaps {
            self.revisions.confirm_gaps(history.gaps);
        }
        let was_open = self.gate.closed().is_none();
        self.gate.update(|inputs| {
            inputs.connected = view.connected;
            inputs.state = view.state;
            inputs.restore_noticed = noticed.is_some();
            inputs.asserted_epoch = asserted.unwrap_or_default();
            inputs.start_confirmed = is_confirmed;
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

    /// Returns the text that the leader must confirm. It changes with every gap.
    fn start_text(&self, gaps: u64) -> String {
        let mut start = self.start.lock();
        if start.0 != gaps {
            *start = (gaps, format!("{:016x}", RandomState::new().hash_one(())));
        }
        start.1.clone()
    }

    fn is_confirmed(&self, start: &str) -> bool {
        let object = self.partitions.current_object();
        let status = object.as_ref().and_then(|object| object.status.as_ref());
        start.is_empty() || status.is_some_and(|status| status.confirmed_start == start)
    }
}

#[cfg(test)]
mod protocol_tests;
#[cfg(test)]
mod tests;
