use super::*;
use crate::fake_api::FakeApi;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools";

/// Watches for two minutes and returns the records.
async fn watch(api: &FakeApi) -> WhereaboutsRecords {
    let records = WhereaboutsRecords::new(api.client());
    timeout(Duration::from_secs(120), records.clone().watch()).await.unwrap_err();
    records
}

#[tokio::test(start_paused = true)]
async fn only_a_missing_kind_means_that_whereabouts_is_not_installed() {
    let absent = watch(&FakeApi::default()).await;
    assert!(absent.cache().is_synced());
    assert_eq!(absent.recorded(), RecordedAllocations::default());
    for status in [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED] {
        let api = FakeApi::default();
        api.reject(IP_POOLS, status);
        let records = watch(&api).await;
        assert!(records.cache().is_synced(), "pods without a Whereabouts range can start");
        let [unreadable] = &records.recorded().unreadable[..] else { panic!("{status}") };
        assert_eq!(unreadable.ranges, None, "every range is affected");
        assert!(unreadable.cause.contains("ippools.whereabouts.cni.cncf.io"), "{}", unreadable.cause);
    }
    let api = FakeApi::default();
    api.reject(IP_POOLS, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!watch(&api).await.cache().is_synced(), "an outage tells nothing");
}

fn parse(name: &str, spec: Value) -> RecordedAllocations {
    let object = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec,
    });
    parse_pool(serde_json::from_value(object).unwrap()).1.unwrap()
}

#[test]
fn ip_pool_that_cannot_be_read_blocks_its_range() {
    let record = json!({"id": "c", "podref": "ns/p", "ifname": "net1"});
    let read = parse("10.0.0.0-24", json!({"range": "10.0.0.0/24", "allocations": {"7": record}}));
    let [one] = &read.records[..] else { panic!("{read:?}") };
    assert_eq!((one.address.to_string().as_str(), one.pod.as_str()), ("10.0.0.7", "ns/p"));
    assert_eq!((one.interface.as_deref(), one.ip_pool.as_str()), (Some("net1"), "kube-system/10.0.0.0-24"));
    assert!(read.unreadable.is_empty());

    let broken = [
        json!({"range": "10.0.0.0/24", "allocations": {"x": record}}),
        json!({"range": "10.0.0.0/24", "allocations": {"7": 3}}),
        json!({"range": "", "allocations": {"7": record}}),
        json!({"range": 7}),
        json!("x"),
    ];
    for spec in broken {
        let read = parse("10.0.0.0-24", spec.clone());
        let [unreadable] = &read.unreadable[..] else { panic!("{spec}") };
        let range = "10.0.0.0/24".parse().unwrap();
        assert!(unreadable.ranges.as_ref().is_some_and(|ranges| ranges.contains(&range)), "{spec}");
        assert!(unreadable.cause.contains("IPPool kube-system/10.0.0.0-24"), "{}", unreadable.cause);
    }
}

// Case: ipam W34
#[test]
fn missing_or_broken_flat_file_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let read = || WhereaboutsLegacy::read(&root, RecordedAllocations::default());
    assert!(read().flat_file.is_empty());
    let file = root.path(FLAT_FILE_PATHS[1]);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{").unwrap();
    assert!(read().flat_file.is_empty());
    fs::write(&file, r#"{"range": "10.0.0.0/24"}"#).unwrap();
    assert_eq!(read().flat_file["range"], "10.0.0.0/24");
}
