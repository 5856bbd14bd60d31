use super::*;
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;
use serde_json::json;

struct NodeLivenessFixture {
    api: FakeApi,
    liveness: NodeLiveness,
}

impl NodeLivenessFixture {
    fn new() -> Self {
        let api = FakeApi::default();
        let liveness = NodeLiveness::new(api.client(), SharedCache::default());
        liveness.nodes.apply(Event::InitDone);
        Self { api, liveness }
    }

    /// Sets what the cache has.
    fn cache(&self, fencing: Option<NodeFencing>) {
        let facts = fencing.map(|fencing| NodeFacts { fencing, ..NodeFacts::default() });
        self.liveness.nodes.apply(Event::Apply((("".into(), "n1".into()), facts)));
    }

    /// Stores a Node in the API server.
    fn store(&self, taint: &str) {
        let node =
            json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]}});
        self.api.insert_object("/api/v1/nodes/n1", node);
    }

    async fn loss(&self) -> Option<NodeLoss> {
        self.liveness.find_lost(["n1".to_owned()].into()).await.nodes.get("n1").copied()
    }

    fn reads(&self) -> usize {
        self.api.list_calls().len()
    }
}

// Case: ipam G01
#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_lost_after_ten_minutes_and_a_second_look() {
    let node = NodeLivenessFixture::new();
    assert_eq!(node.loss().await, None);
    let held = node.liveness.find_lost(["n1".to_owned()].into()).await;
    assert_eq!(held.recheck, Some(DELETED_NODE_HOLD));
    assert_eq!(node.reads(), 1, "asked once, not in every pass");
    tokio::time::advance(DELETED_NODE_HOLD - Duration::from_secs(1)).await;
    assert_eq!(node.loss().await, None);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(node.loss().await, Some(NodeLoss::Deleted));
    assert_eq!(node.loss().await, Some(NodeLoss::Deleted));
    assert_eq!(node.reads(), 2);
    // The node registers again.
    node.cache(Some(NodeFencing::NotFenced));
    assert_eq!(node.loss().await, None);
}

// Case: ipam G01
#[tokio::test(start_paused = true)]
async fn a_node_that_exists_is_not_lost_although_the_cache_lacks_it() {
    let node = NodeLivenessFixture::new();
    node.store("node.kubernetes.io/unreachable");
    for _ in 0..3 {
        assert_eq!(node.loss().await, None);
        tokio::time::advance(DELETED_NODE_HOLD).await;
    }
    let unsynced = NodeLiveness::new(node.api.client(), SharedCache::default());
    assert_eq!(unsynced.find_lost(["n1".to_owned()].into()).await, LostNodes::default());
    node.api.set_unavailable(true);
    let unknown = node.liveness.find_lost(["n1".to_owned()].into()).await;
    assert_eq!(
        (unknown.nodes.len(), unknown.recheck),
        (0, Some(READ_RETRY_PAUSE)),
        "without an answer, nothing is known"
    );
}

// Case: ipam G01
#[tokio::test(start_paused = true)]
async fn a_node_out_of_service_is_lost_at_once_and_stays_lost_when_it_is_deleted() {
    let node = NodeLivenessFixture::new();
    node.cache(Some(NodeFencing::OutOfService));
    node.store("other");
    assert_eq!(node.loss().await, None, "the taint was removed, and the cache lags behind");
    node.store(crate::node_facts::OUT_OF_SERVICE);
    assert_eq!(node.loss().await, Some(NodeLoss::OutOfService));
    node.cache(None);
    node.api.remove_object("/api/v1/nodes/n1");
    assert_eq!(node.loss().await, Some(NodeLoss::Deleted));
    node.cache(Some(NodeFencing::NotFenced));
    assert_eq!(node.loss().await, None);
}
