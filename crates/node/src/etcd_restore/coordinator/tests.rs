use super::*;
use ferroband_api::ferroband::{
    AddressImports, AddressState, AddressStateSpec, AddressStateStatus, EtcdRestore, ImportPhase,
    NodePartitions, NodePartitionsStatus, RestorePhase,
};
use ferroband_daemon::RevisionHistory;
use ferroband_testbed::fake_api::FakeApi;
use jiff::Timestamp;
use kube::runtime::watcher::Event;

pub(super) struct RestoreFixture {
    revisions: Arc<RevisionWatch>,
    view: watch::Sender<AddressStateView>,
    asserted: watch::Sender<Option<String>>,
    epoch: watch::Receiver<String>,
    coordinator: RestoreCoordinator,
}

impl RestoreFixture {
    /// A daemon that starts with this history.
    pub(super) fn start(saved: RevisionHistory) -> Self {
        let revisions = Arc::new(RevisionWatch::new(saved));
        let (view, view_receiver) = watch::channel(AddressStateView::default());
        let (epoch_sender, epoch) = watch::channel(String::new());
        let (asserted, asserted_receiver) = watch::channel(None);
        let partitions = Arc::new(NodePartitionsSync::new(FakeApi::default().client(), "n1".into()));
        let coordinator = RestoreCoordinator::new(
            (revisions.clone(), view_receiver),
            AssignmentGate::default(),
            partitions,
            (epoch_sender, asserted_receiver),
            Arc::new(AtomicUsize::new(usize::MAX)),
        );
        Self { revisions, view, asserted, epoch, coordinator }
    }

    /// What the API server returns at this revision.
    pub(super) fn list(&self, revision: u64, restore: Option<(&str, RestorePhase)>) {
        let imports =
            AddressImports { whereabouts: ImportPhase::Complete, spiderpool: ImportPhase::Complete };
        let status = Some(AddressStateStatus { imports, ..AddressStateStatus::default() });
        let restore =
            restore.map(|(epoch, phase)| EtcdRestore { epoch: epoch.into(), phase, reason: String::new() });
        let spec = AddressStateSpec { nodes: 4, restore };
        let state = AddressState { spec, status, ..AddressState::default() };
        let highest = self.revisions.highest();
        self.revisions.observe_current(highest, &revision.to_string(), state.spec.epoch());
        self.view.send_replace(AddressStateView { connected: true, state: Some(Arc::new(state)) });
        self.coordinator.update();
    }

    pub(super) fn assert_entries(&self, epoch: &str) {
        self.asserted.send_replace(Some(epoch.to_owned()));
        self.coordinator.update();
    }

    /// The leader writes the status of this node's NodePartitions.
    fn confirm(&self, start: &str) {
        let status =
            NodePartitionsStatus { confirmed_start: start.into(), ..NodePartitionsStatus::default() };
        let object = NodePartitions { status: Some(status), ..NodePartitions::default() };
        let key = (String::new(), "n1".to_owned());
        self.coordinator.partitions.own_object.apply(Event::Apply((key, Some(object))));
        self.coordinator.update();
    }

    pub(super) fn report(&self) -> NodeAddressReport {
        self.coordinator.partitions.state().spec().addresses.unwrap_or_default()
    }

    /// The leader confirms whatever the daemon asks.
    pub(super) fn confirm_start(&self) {
        self.confirm(&self.report().start);
    }

    pub(super) fn disconnect(&self) {
        self.view.send_modify(|view| view.connected = false);
        self.coordinator.update();
    }

    pub(super) fn observe_block(&self, revision: u64) {
        self.revisions.observe(&revision.to_string());
        self.coordinator.update();
    }

    pub(super) fn bookmark(&self, revision: u64) {
        self.revisions.observe_bookmark(&revision.to_string());
        self.coordinator.update();
    }

    /// What the file contains.
    pub(super) fn history(&self) -> RevisionHistory {
        self.revisions.history()
    }

    pub(super) fn is_open(&self) -> bool {
        self.coordinator.gate.closed().is_none()
    }
}

/// The history of a daemon that saw revision 100 a moment ago.
fn known() -> RevisionHistory {
    let mut history = RevisionHistory::default();
    history.observe_current(0, 100, "", Timestamp::now());
    history.confirmed_gaps = history.gaps;
    history
}

#[tokio::test]
async fn a_restarted_daemon_assigns_without_the_leader() {
    let node = RestoreFixture::start(known());
    assert!(!node.is_open(), "not connected yet");
    node.list(120, None);
    node.assert_entries("");
    assert!(node.is_open());
    assert_eq!(node.report().start, "");
    assert_eq!(node.coordinator.node_count.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_daemon_that_notices_a_restore_reports_it_and_waits_for_all_nodes() {
    let node = RestoreFixture::start(known());
    node.list(120, None);
    node.assert_entries("");
    node.list(60, None);
    assert!(!node.is_open());
    assert_eq!(node.report().noticed.unwrap().epoch, "");
    // The leader answers with an epoch. The evidence scan writes the entries of running pods for it.
    node.list(61, Some(("e1", RestorePhase::Asserting)));
    assert_eq!((*node.epoch.borrow()).as_str(), "e1");
    assert_eq!(node.report().noticed, None);
    node.assert_entries("e1");
    assert_eq!(node.report().asserted_epoch, "e1");
    assert!(!node.is_open(), "other nodes have not asserted");
    node.list(70, Some(("e1", RestorePhase::Complete)));
    assert!(node.is_open());
}

#[tokio::test]
async fn a_daemon_that_starts_after_the_restore_notices_it_by_its_file() {
    let node = RestoreFixture::start(known());
    node.assert_entries("");
    node.list(60, None);
    assert!(!node.is_open() && node.report().noticed.is_some());
}

#[tokio::test]
async fn a_daemon_that_first_starts_during_the_restore_assigns_nothing_until_it_is_over() {
    let node = RestoreFixture::start(RevisionHistory::default());
    // The backup looks like a cluster without any restore, and nobody has noticed it yet.
    node.list(60, None);
    let start = node.report().start;
    assert!(!start.is_empty());
    node.assert_entries("");
    assert!(!node.is_open(), "it cannot know");
    node.confirm("an earlier daemon");
    assert!(!node.is_open());
    // Another node notices the restore.
    node.list(62, Some(("e1", RestorePhase::Asserting)));
    node.assert_entries("e1");
    assert!(!node.is_open());
    node.list(70, Some(("e1", RestorePhase::Complete)));
    assert!(!node.is_open(), "the leader has not confirmed the start");
    node.confirm(&start);
    assert!(node.is_open());
}

#[tokio::test]
async fn a_daemon_that_was_off_for_long_asks_the_leader() {
    let mut history = known();
    history.seen_at -= 601;
    let node = RestoreFixture::start(history);
    node.list(120, None);
    node.assert_entries("");
    assert!(!node.is_open());
    // It is restarted before the leader answers.
    let node = RestoreFixture::start(node.history());
    node.list(120, None);
    node.assert_entries("");
    assert!(!node.is_open());
    node.confirm_start();
    assert!(node.is_open());
    let node = RestoreFixture::start(node.history());
    node.list(120, None);
    node.assert_entries("");
    assert!(node.is_open(), "the next daemon knows it");
}

#[tokio::test]
async fn a_broken_watch_closes_the_gate_until_it_is_restored() {
    let node = RestoreFixture::start(known());
    node.list(120, None);
    node.assert_entries("");
    let (gate, view) = (node.coordinator.gate.clone(), node.view);
    let mut changes = gate.changes();
    tokio::spawn(node.coordinator.run());
    view.send_modify(|view| view.connected = false);
    changes.wait_for(|inputs| !inputs.connected).await.unwrap();
    assert!(gate.closed().is_some());
    view.send_modify(|view| view.connected = true);
    changes.wait_for(|inputs| inputs.connected).await.unwrap();
    assert!(gate.closed().is_none());
}
