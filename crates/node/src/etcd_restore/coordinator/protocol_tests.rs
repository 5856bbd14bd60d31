//! The protocol as a whole: nodes with their real histories and gates, a model of etcd, and the leader's rules.

use super::tests::RestoreFixture;
use ferroband_api::ferroband::{NodeAddressReport, RestorePhase};
use ferroband_daemon::RevisionHistory;
use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};

const NODES: usize = 4;

#[derive(Clone, Debug)]
enum ProtocolStep {
    /// A pod starts on the node, if the node may assign.
    Assign(usize),
    /// A bookmark reaches every connected node.
    Bookmark,
    Backup,
    Restore,
    Reconnect(usize),
    /// The node writes the entries of its pods again.
    Assert(usize),
    /// The daemon is restarted with its file.
    Restart(usize),
    /// The daemon loses its file, or starts on a new node of that name.
    FirstStart(usize),
    Lead,
}

fn steps() -> impl Strategy<Value = Vec<ProtocolStep>> {
    let node = 0..NODES;
    let step = prop_oneof![
        4 => node.clone().prop_map(ProtocolStep::Assign),
        2 => Just(ProtocolStep::Bookmark),
        1 => Just(ProtocolStep::Backup),
        1 => Just(ProtocolStep::Restore),
        6 => node.clone().prop_map(ProtocolStep::Reconnect),
        4 => node.clone().prop_map(ProtocolStep::Assert),
        1 => node.clone().prop_map(ProtocolStep::Restart),
        1 => node.prop_map(ProtocolStep::FirstStart),
        4 => Just(ProtocolStep::Lead),
    ];
    vec(step, 0..120)
}

/// What etcd stores.
#[derive(Clone, Default)]
struct StoredState {
    revision: u64,
    restore: Option<(String, RestorePhase)>,
    /// Number of pods of each node that have entries.
    entries: [usize; NODES],
    reports: [NodeAddressReport; NODES],
}

struct ProtocolModel {
    etcd: StoredState,
    backup: StoredState,
    nodes: Vec<RestoreFixture>,
    connected: [bool; NODES],
    /// Number of pods that run on each node.
    pods: [usize; NODES],
    /// Whether the node has listed the AddressState since the last restore.
    reconnected_since_restore: [bool; NODES],
    /// Whether the node was away when the backup was made. It was away for long.
    missed_backup: [bool; NODES],
    /// What the leader has seen; `None` if it was restarted with etcd.
    leader: Option<RevisionHistory>,
    restores: usize,
    epochs: usize,
}

impl ProtocolModel {
    fn new(leader_knows: bool) -> Self {
        let etcd = StoredState { revision: 100, ..StoredState::default() };
        let mut model = Self {
            backup: etcd.clone(),
            etcd,
            nodes: (0..NODES).map(|_| RestoreFixture::start(RevisionHistory::default())).collect(),
            connected: [false; NODES],
            pods: [0; NODES],
            reconnected_since_restore: [true; NODES],
            missed_backup: [false; NODES],
            leader: leader_knows.then(RevisionHistory::default),
            restores: 0,
            epochs: 0,
        };
        for node in 0..NODES {
            model.reconnect(node);
            model.assert_entries(node);
            model.nodes[node].confirm_start();
        }
        model.run(&ProtocolStep::Backup);
        model
    }

    fn write(&mut self) -> u64 {
        self.etcd.revision += 1;
        self.etcd.revision
    }

    /// Delivers the AddressState to a connected node.
    fn deliver(&mut self, node: usize) {
        if self.connected[node] {
            let restore = self.etcd.restore.as_ref().map(|(epoch, phase)| (epoch.as_str(), *phase));
            self.nodes[node].list(self.etcd.revision, restore);
            self.etcd.reports[node] = self.nodes[node].report();
        }
    }

    fn reconnect(&mut self, node: usize) {
        if std::mem::take(&mut self.missed_backup[node]) {
            let mut history = self.nodes[node].history();
            history.seen_at -= 3600;
            self.nodes[node] = RestoreFixture::start(history);
        }
        (self.connected[node], self.reconnected_since_restore[node]) = (true, true);
        self.deliver(node);
    }

    fn assert_entries(&mut self, node: usize) {
        if self.connected[node] {
            self.write();
            self.etcd.entries[node] = self.pods[node];
            let epoch = self.etcd.restore.as_ref().map(|(epoch, _)| epoch.clone()).unwrap_or_default();
            self.nodes[node].assert_entries(&epoch);
            self.etcd.reports[node] = self.nodes[node].report();
        }
    }

    fn lead(&mut self) {
        let epoch = self.etcd.restore.as_ref().map(|(epoch, _)| epoch.clone()).unwrap_or_default();
        let noticed = |report: &NodeAddressReport| {
            report.noticed.as_ref().is_some_and(|noticed| noticed.epoch == epoch)
        };
        let by_leader = self.leader.as_mut().is_some_and(|leader| {
            leader.observe_current(leader.revision, self.etcd.revision, &epoch, Timestamp::now());
            leader.noticed.as_ref().is_some_and(|noticed| noticed.epoch == epoch)
        });
        let asserting =
            self.etcd.restore.as_ref().is_some_and(|(_, phase)| *phase == RestorePhase::Asserting);
        if by_leader || self.etcd.reports.iter().any(noticed) {
            self.epochs += 1;
            self.etcd.restore = Some((format!("e{:03}", self.epochs), RestorePhase::Asserting));
        } else if asserting {
            if self.etcd.reports.iter().all(|report| report.asserted_epoch == epoch) {
                self.etcd.restore = Some((epoch, RestorePhase::Complete));
            }
        } else if self.reconnected_since_restore.iter().all(|seen| *seen) {
            // The leader's delay: nodes that know more than the leader have asked the API server meanwhile.
            (0..NODES).filter(|node| self.connected[*node]).for_each(|node| self.nodes[node].confirm_start());
        }
        self.write();
        (0..NODES).for_each(|node| self.deliver(node));
    }

    fn run(&mut self, step: &ProtocolStep) {
        match *step {
            ProtocolStep::Assign(node) if self.nodes[node].is_open() => {
                assert!(self.connected[node]);
                let revision = self.write();
                self.pods[node] += 1;
                self.etcd.entries[node] += 1;
                self.nodes[node].observe_block(revision);
            }
            ProtocolStep::Bookmark => {
                let revision = self.write();
                for node in (0..NODES).filter(|node| self.connected[*node]) {
                    self.nodes[node].bookmark(revision);
                }
                if let Some(leader) = &mut self.leader {
                    leader.observe_version(revision, Timestamp::now());
                }
            }
            // A backup is older than the last bookmark, by more revisions than follow until all nodes are connected again.
            ProtocolStep::Backup if self.etcd.entries == self.pods => {
                self.backup = self.etcd.clone();
                self.missed_backup = self.connected.map(|connected| !connected);
                self.etcd.revision += 1_000_000;
                self.run(&ProtocolStep::Bookmark);
            }
            ProtocolStep::Restore => {
                self.etcd = self.backup.clone();
                self.restores += 1;
                // The API servers are stopped.
                (self.connected, self.reconnected_since_restore) = ([false; NODES], [false; NODES]);
                self.nodes.iter().for_each(RestoreFixture::disconnect);
            }
            ProtocolStep::Reconnect(node) => self.reconnect(node),
            ProtocolStep::Assert(node) => self.assert_entries(node),
            ProtocolStep::Restart(node) => {
                self.connected[node] = false;
                self.nodes[node] = RestoreFixture::start(self.nodes[node].history());
            }
            // Somebody must know what was before the restore.
            ProtocolStep::FirstStart(0) if self.leader.is_none() => {}
            ProtocolStep::FirstStart(node) => {
                self.connected[node] = false;
                self.nodes[node] = RestoreFixture::start(RevisionHistory::default());
            }
            ProtocolStep::Lead => self.lead(),
            ProtocolStep::Assign(_) | ProtocolStep::Backup => {}
        }
    }

    /// No node may assign while a running pod has no entry.
    fn check(&self) {
        if self.etcd.entries != self.pods {
            let open: Vec<usize> = (0..NODES).filter(|node| self.nodes[*node].is_open()).collect();
            assert!(
                open.is_empty(),
                "nodes {open:?} may assign, entries {:?} of {:?}",
                self.etcd.entries,
                self.pods
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_node_assigns_while_a_restore_of_etcd_has_lost_entries_of_running_pods(
        steps in steps(),
        leader_knows in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let mut model = ProtocolModel::new(leader_knows);
        for step in &steps {
            model.run(step);
            model.check();
        }
        // In the end everything is well again.
        for _ in 0..4 {
            (0..NODES).for_each(|node| model.reconnect(node));
            (0..NODES).for_each(|node| model.assert_entries(node));
            model.lead();
        }
        (0..NODES).for_each(|node| prop_assert_open(&model, node));
        prop_assert_eq!(model.etcd.entries, model.pods);
    }
}

fn prop_assert_open(model: &ProtocolModel, node: usize) {
    assert!(model.nodes[node].is_open(), "node {node} after {} restores", model.restores);
}
