use super::*;
use crate::{ClusterSettings, address::caches::CachedBlock};
use ferroband_address::{IpBlock, IpSpace, ResourceVersion};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::addresses::block_from_object;
use ferroband_testbed::fake_api::FakeApi;
use jiff::Timestamp;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

const BLOCKS: &str = "/apis/ferroband.io/v1alpha1/addressblocks";
const STATE: &str = "/apis/ferroband.io/v1alpha1/addressstates/cluster";

/// A leader with an import, whose caches follow the fake API server.
struct Leader {
    api: FakeApi,
    caches: AddressCaches,
    import: RecordImport,
}

impl Leader {
    fn new() -> Self {
        let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let lease = Arc::new(SpiderpoolLease::new(api.client()));
        let import = RecordImport::new(&context, caches.clone(), lease, OutdatedRecords::default());
        Self { api, caches, import }
    }

    fn put_ip_pool(&self, name: &str, spec: Value, manager: &str) {
        let now = Timestamp::now().to_string();
        let object = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": name, "namespace": "kube-system", "uid": "u", "resourceVersion": "1",
                "managedFields": [{"manager": manager, "time": now}]},
            "spec": spec,
        });
        let pool = ForeignIpPool::from_object(serde_json::from_value(object).unwrap());
        self.caches
            .whereabouts_pools
            .cache
            .apply(Event::Apply((("kube-system".to_owned(), name.to_owned()), Some(pool))));
    }

    fn put_block(&self, object: &Value) {
        let object: AddressBlock = serde_json::from_value(object.clone()).unwrap();
        let (block, version) = block_from_object(&object).unwrap();
        let key = (String::new(), block.object_name());
        let cached = CachedBlock { block, version, uid: String::new() };
        self.caches.blocks.apply(Event::Apply((key, Some(cached))));
    }

    /// Runs a pass, and delivers the blocks that it wrote.
    async fn pass(&self) {
        self.import.reconcile().await.unwrap();
        for name in ["default-10.0.0.0", "pool-10.0.0.0-24-10.0.0.0"] {
            if let Some(object) = self.api.get_object(&format!("{BLOCKS}/{name}")) {
                self.put_block(&object);
            }
        }
        self.put_state("");
    }

    /// Delivers the AddressState, after the restore `epoch` of etcd if it is not empty.
    fn put_state(&self, epoch: &str) {
        let restore = (!epoch.is_empty()).then(|| json!({"epoch": epoch, "phase": "Asserting"}));
        let state = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressState", "metadata": {},
            "spec": {"restore": restore}, "status": self.status()});
        let state = serde_json::from_value(state).unwrap();
        self.caches.address_states.apply(Event::Apply(((String::new(), "cluster".to_owned()), Some(state))));
    }

    /// Removes all entries of the block in the default space.
    fn lose_entries(&self) {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let key = (String::new(), id.object_name());
        let cached = CachedBlock {
            block: IpBlock::new(id, None),
            version: ResourceVersion("9".into()),
            uid: String::new(),
        };
        self.caches.blocks.apply(Event::Apply((key, Some(cached))));
    }

    fn status(&self) -> Value {
        self.api.last_body("PATCH", &format!("{STATE}/status"))["status"].clone()
    }

    fn entry(&self, last: u8) -> Option<AddressAllocation> {
        self.import.entry(&RecordSlot { space: IpSpace::default_space(), address: [10, 0, 0, last].into() })
    }

    fn put_pod(&self, name: &str, annotations: Value, status: Value) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": []}, "status": status});
        self.api.insert_object(&format!("/api/v1/namespaces/ns/pods/{name}"), pod);
    }
}

fn spec(records: &[(&str, &str)]) -> Value {
    let record =
        |pod: &str| json!({"id": format!("c-{pod}"), "podref": format!("ns/{pod}"), "ifname": "net1"});
    let allocations: serde_json::Map<String, Value> =
        records.iter().map(|(offset, pod)| ((*offset).to_owned(), record(pod))).collect();
    json!({"range": "10.0.0.0/24", "allocations": allocations})
}

// Case: ipam W41
#[tokio::test]
async fn nodes_may_assign_when_every_record_has_an_entry() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a"), ("2", "b")]), "kubectl");
    leader.pass().await;
    assert_eq!(leader.status()["imports"], json!({"whereabouts": "Pending", "spiderpool": "Complete"}));
    let withheld = leader.entry(1).unwrap();
    assert_eq!(
        (withheld.pod.as_str(), withheld.container.as_str(), withheld.node.as_str()),
        ("ns/a", "c-a", "")
    );
    let own = RecordSlot { space: IpSpace::from_text("pool/10.0.0.0/24"), address: [10, 0, 0, 2].into() };
    assert!(leader.import.entry(&own).is_some(), "also for networks whose ranges may overlap");
    leader.pass().await;
    assert_eq!(leader.status()["imports"]["whereabouts"], "Complete");
    assert_eq!(leader.status()["blockedRanges"], json!([]));
}

// Case: ipam A28
#[tokio::test(start_paused = true)]
async fn a_placeholder_becomes_the_entry_of_the_pod_that_has_the_address() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a")]), "kubectl");
    let network_status = json!([{"interface": "net1", "ips": ["10.0.0.1"]}]).to_string();
    leader.put_pod(
        "a",
        json!({"k8s.v1.cni.cncf.io/network-status": network_status}),
        json!({"phase": "Running"}),
    );
    leader.pass().await;
    leader.pass().await;
    let entry = leader.entry(1).unwrap();
    assert_eq!((entry.node.as_str(), entry.uid.as_str(), entry.interface.as_str()), ("n1", "uid-a", "net1"));
    // The node releases the address, so the record is outdated.
    leader.lose_entries();
    leader.import.reconcile().await.unwrap();
    tokio::time::advance(RELEASE_GRACE_PERIOD).await;
    leader.import.reconcile().await.unwrap();
    let path = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.0.0.0-24";
    assert_eq!(leader.api.last_body("DELETE", path)["preconditions"]["resourceVersion"], "1");
    assert!(leader.entry(1).is_none(), "it is not imported again");
}

#[tokio::test]
async fn an_entry_that_a_restore_of_etcd_lost_is_imported_again() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a")]), "kubectl");
    leader.pass().await;
    leader.pass().await;
    // The API server has the lost entries still, so that the write is refused; it counts that it is tried.
    leader.lose_entries();
    leader.put_state("2026-11-16");
    leader.import.reconcile().await.unwrap();
    let block = leader.api.last_body("PUT", &format!("{BLOCKS}/default-10.0.0.0"));
    assert_eq!(block["spec"]["entries"]["1"]["pod"], "ns/a");
}

#[tokio::test]
async fn a_later_record_loses_to_the_entry_and_is_reported() {
    let leader = Leader::new();
    let entry = json!({"pod": "ns/ours", "uid": "u", "interface": "net1", "container": "c", "node": "n1"});
    leader.put_block(&json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock",
        "metadata": {"name": "default-10.0.0.0", "resourceVersion": "5"},
        "spec": {"space": "default", "first": "10.0.0.0", "entries": {"7": entry}}}));
    leader.put_ip_pool("10.0.0.0-24", spec(&[("7", "late")]), "kubectl");
    leader.put_pod("late", json!({}), json!({"phase": "Running"}));
    leader.pass().await;
    leader.pass().await;
    assert_eq!(leader.entry(7).unwrap().pod, "ns/ours");
    let conditions = leader.status()["conditions"].to_string();
    assert!(conditions.contains("records 10.0.0.7 for pod ns/late, but pod ns/ours has it"), "{conditions}");
    assert_eq!(leader.status()["imports"]["whereabouts"], "Complete");
}

#[tokio::test]
async fn an_unreadable_pool_stays_blocked_until_its_records_are_imported() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", json!({"range": "10.0.0.0/24", "allocations": {"x": {}}}), "kubectl");
    leader.pass().await;
    let blocked = |leader: &Leader| leader.status()["blockedRanges"].as_array().unwrap().len();
    assert_eq!(blocked(&leader), 1);
    assert_eq!(leader.status()["imports"]["whereabouts"], "Complete", "other ranges can be used");
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a")]), "kubectl");
    leader.pass().await;
    assert_eq!(blocked(&leader), 1, "the record has no entry yet");
    leader.pass().await;
    assert_eq!(blocked(&leader), 0);
    assert!(leader.entry(1).is_some());
}

#[tokio::test]
async fn a_range_is_blocked_while_whereabouts_still_adds_records() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a")]), "whereabouts");
    leader.pass().await;
    leader.pass().await;
    assert_eq!(leader.status()["blockedRanges"], json!([]), "records from before the import block nothing");
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a"), ("2", "b")]), "whereabouts");
    leader.pass().await;
    let blocked = &leader.status()["blockedRanges"][0];
    assert_eq!(blocked["range"], "10.0.0.0-10.0.0.255");
    assert!(blocked["reason"].as_str().unwrap().contains("still adds records"), "{blocked}");
    leader.import.memory.lock().active_until.clear();
    leader.pass().await;
    assert_eq!(leader.status()["blockedRanges"], json!([]));
}

#[tokio::test]
async fn a_placeholder_is_removed_with_its_record() {
    let leader = Leader::new();
    leader.put_ip_pool("10.0.0.0-24", spec(&[("1", "a"), ("2", "b")]), "kubectl");
    leader.pass().await;
    leader.put_ip_pool("10.0.0.0-24", spec(&[("2", "b")]), "whereabouts");
    leader.pass().await;
    assert!(leader.entry(1).is_none() && leader.entry(2).is_some());
}

#[tokio::test]
async fn pools_are_blocked_while_spiderpool_runs() {
    let leader = Leader::new();
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.5-10.0.0.9"]},
        "status": {"allocatedIPs": r#"{"10.0.0.5":{"pod":"ns/a","podUid":"uid-a"}}"#},
    });
    let pool = serde_json::from_value(pool).unwrap();
    leader.caches.ip_pools.cache.apply(Event::Apply(((String::new(), "p".to_owned()), Some(pool))));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "spiderpool-controller-leases", "namespace": "kube-system"},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": Timestamp::now().to_string()}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/spiderpool-controller-leases";
    leader.api.insert_object(path, lease);
    leader.pass().await;
    let blocked = &leader.status()["blockedRanges"][0];
    assert_eq!((&blocked["space"], &blocked["range"]), (&json!("default"), &json!("10.0.0.5-10.0.0.9")));
    assert_eq!(leader.entry(5).unwrap().container, "before-uid-a");
}
