use super::*;
use crate::ClusterSettings;
use ferroband_api::ferroband::NodePartitionsSpec;
use ferroband_testbed::fake_api::FakeApi;
use http::StatusCode;
use kube::runtime::watcher::Event;
use std::time::Instant;

const PATH: &str = "/apis/ferroband.io/v1alpha1/nodepartitions";

struct PartitionPassFixture {
    api: FakeApi,
    controller: PartitionController,
}

impl PartitionPassFixture {
    fn new() -> Self {
        let api = FakeApi::default();
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let nodes = SharedCache::default();
        let caches = PartitionCaches {
            liveness: NodeLiveness::new(api.client(), SharedCache::clone(&nodes)),
            nodes,
            node_partitions: SharedCache::default(),
            partitions: SharedCache::default(),
            guid_blocks: SharedCache::default(),
            hosts: SharedCache::default(),
            secrets: SharedCache::default(),
            config_maps: SharedCache::default(),
        };
        let none: Arc<dyn SubnetManager> = Arc::new(NoopSubnetManager);
        let controller = PartitionController {
            context,
            caches,
            reconciler: ReconcilerHandle::default(),
            managers: watch::Sender::new(none),
            health: watch::channel(SubnetManagerHealth::default()).1,
            confirms_starts: watch::channel(true).1,
            last_pass: Mutex::default(),
        };
        let fabric = json!({"metadata": {"name": "default"}, "spec": {}});
        api.insert_object("/apis/ferroband.io/v1alpha1/fabrics/default", fabric);
        Self { api, controller }
    }

    /// Sets the generation of the NodePartitions of node `name`.
    fn change(&self, name: &str, generation: i64) {
        let mut object = NodePartitions::new(name, NodePartitionsSpec::default());
        object.metadata.generation = Some(generation);
        self.api.insert_object(&format!("{PATH}/{name}"), serde_json::to_value(&object).unwrap());
        let key = (String::new(), name.to_owned());
        self.controller.caches.node_partitions.apply(Event::Apply((key, Some(object))));
    }

    fn status_writes(&self) -> usize {
        let is_write = |call: &&String| call.starts_with(&format!("PATCH {PATH}/"));
        self.api.list_calls().iter().filter(is_write).count()
    }
}

#[tokio::test]
async fn a_change_on_ten_thousand_nodes_is_told_to_all_in_one_pass_and_a_failed_node_stops_none() {
    let leader = PartitionPassFixture::new();
    for number in 0..10_000 {
        leader.change(&format!("n{number}"), 1);
    }
    leader.api.reject(&format!("{PATH}/n0/status"), StatusCode::INTERNAL_SERVER_ERROR);
    let start = Instant::now();
    let error = leader.controller.reconcile().await.unwrap_err();
    assert!(error.to_string().contains("NodePartitions n0"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(leader.status_writes(), 10_000, "each node is told once, the final state");
    let told = leader.api.last_body("PATCH", &format!("{PATH}/n9999/status"));
    assert_eq!(told["status"]["observedGeneration"], 1);
    let fabric = "PATCH /apis/ferroband.io/v1alpha1/fabrics/default/status".to_owned();
    assert!(leader.api.list_calls().contains(&fabric), "the rest of the pass is done");

    // The next pass begins before the cache shows the statuses.
    leader.api.clear_calls();
    leader.controller.reconcile().await.unwrap_err();
    assert_eq!(leader.status_writes(), 1, "only the failed one is written again");
}
