use super::*;
use crate::ClusterSettings;
use ferroband_api::ferroband::NodeAddressReport;
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;

const PATH: &str = "/apis/ferroband.io/v1alpha1/addressstates/cluster";

struct RestoreControllerFixture {
    api: FakeApi,
    view: watch::Sender<AddressStateView>,
    controller: RestoreController,
    confirms: watch::Receiver<bool>,
}

impl RestoreControllerFixture {
    fn new(continues: bool) -> Self {
        let api = FakeApi::default();
        api.insert_object(PATH, json!({"metadata": {"name": "cluster"}, "spec": {}}));
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let (view, receiver) = watch::channel(AddressStateView::default());
        let (confirms_starts, confirms) = watch::channel(false);
        let liveness = NodeLiveness::new(api.client(), SharedCache::default());
        let history = EtcdHistory {
            revisions: Arc::new(RevisionWatch::new(RevisionHistory::default())),
            view: receiver,
            known_since: Arc::new(Mutex::new(Some(Instant::now()))),
        };
        let progress = AssertionProgress { epoch: String::new(), since: Instant::now(), named_at: None };
        let controller = RestoreController {
            context,
            history,
            liveness,
            node_partitions: SharedCache::default(),
            continues,
            confirms_starts,
            progress: Mutex::new(progress),
        };
        Self { api, view, controller, confirms }
    }

    fn set_state(&self, restore: Option<(&str, RestorePhase)>) {
        let restore =
            restore.map(|(epoch, phase)| EtcdRestore { epoch: epoch.into(), phase, reason: String::new() });
        let mut state = AddressState::new(ADDRESS_STATE_NAME, AddressStateSpec { nodes: 1, restore });
        state.metadata.resource_version = Some("7".into());
        self.view.send_replace(AddressStateView { connected: true, state: Some(Arc::new(state)) });
    }

    fn report(&self, node: &str, report: NodeAddressReport) {
        let mut object = NodePartitions::default();
        object.spec.addresses = Some(report);
        self.controller.node_partitions.apply(Event::Apply(((String::new(), node.into()), Some(object))));
    }

    async fn reconcile(&self) -> Option<Duration> {
        self.controller.reconcile().await.unwrap()
    }

    fn written(&self) -> serde_json::Value {
        self.api.last_body("PATCH", PATH)
    }

    fn confirms(&self) -> bool {
        *self.confirms.borrow()
    }
}

fn asserted(epoch: &str) -> NodeAddressReport {
    NodeAddressReport { asserted_epoch: epoch.into(), ..NodeAddressReport::default() }
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_a_node_noticed_ends_when_all_nodes_have_asserted() {
    let leader = RestoreControllerFixture::new(true);
    leader.set_state(None);
    leader.report("n1", asserted(""));
    assert_eq!((leader.reconcile().await, leader.confirms()), (None, true));
    assert!(leader.api.list_calls().is_empty(), "nothing to write");

    let noticed = ferroband_api::ferroband::NoticedRestore { epoch: String::new(), reason: "x".into() };
    leader.report("n1", NodeAddressReport { noticed: Some(noticed), ..NodeAddressReport::default() });
    leader.report("n2", asserted(""));
    leader.reconcile().await;
    assert!(!leader.confirms());
    let body = leader.written();
    assert_eq!(body["spec"]["restore"]["phase"], "Asserting");
    assert_eq!(body["metadata"]["resourceVersion"], "7", "not if somebody else wrote it");
    let epoch = body["spec"]["restore"]["epoch"].as_str().unwrap().to_owned();

    leader.set_state(Some((&epoch, RestorePhase::Asserting)));
    leader.report("n1", asserted(&epoch));
    assert_eq!(leader.reconcile().await, Some(MIN_ASSERTION_TIME));
    tokio::time::advance(MISSING_INTERVAL).await;
    leader.reconcile().await;
    let named = leader.api.last_body("PATCH", &format!("{PATH}/status"));
    assert_eq!(named, json!({"status": {"waitingNodes": ["n2"]}}));
    assert!(!leader.confirms());

    leader.report("n2", asserted(&epoch));
    leader.reconcile().await;
    assert_eq!(leader.written()["spec"]["restore"]["phase"], "Complete");
    leader.set_state(Some((&epoch, RestorePhase::Complete)));
    leader.reconcile().await;
    assert!(leader.confirms());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_does_not_continue_a_term_confirms_starts_after_a_while() {
    let leader = RestoreControllerFixture::new(false);
    leader.reconcile().await;
    assert!(!leader.confirms(), "not connected");
    leader.set_state(None);
    assert_eq!(leader.reconcile().await, Some(CONFIRMATION_DELAY));
    assert!(!leader.confirms(), "old nodes may still notice a restore");
    tokio::time::advance(CONFIRMATION_DELAY).await;
    leader.reconcile().await;
    assert!(leader.confirms());
    leader.view.send_modify(|view| view.connected = false);
    leader.reconcile().await;
    assert!(!leader.confirms());
}
