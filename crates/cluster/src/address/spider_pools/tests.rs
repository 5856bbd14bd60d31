use super::*;
use crate::{ClusterSettings, address::caches::CachedBlock};
use ferroband_address::{IpBlock, ResourceVersion};
use ferroband_testbed::fake_api::FakeApi;
use http::StatusCode;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

const POOLS: &str = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools";

fn key(name: &str) -> (String, String) {
    (String::new(), name.to_owned())
}

fn add_pool(caches: &AddressCaches, name: &str, second: u8) {
    let object = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"],
            "labels": {"ipam.spidernet.io/ippool-cidr": format!("172-{second}-0-0-16")}},
        "spec": {"ipVersion": 4, "subnet": format!("172.{second}.0.0/16"), "ips": [format!("172.{second}.0.0-172.{second}.0.255")]},
    });
    caches.ip_pools.cache.apply(Event::Apply((key(name), Some(serde_json::from_value(object).unwrap()))));
}

fn add_entries(caches: &AddressCaches, pool: &str, second: u8, count: u8) {
    for number in 0..count {
        let (id, offset) = IpBlockId::containing(&IpSpace::default_space(), [172, second, 0, number].into());
        let name = id.object_name();
        let mut block =
            caches.blocks.get("", &name).map_or_else(|| IpBlock::new(id, None), |old| old.block.clone());
        let entry = AddressAllocation {
            pod: format!("ns/p{number}"),
            uid: "u".into(),
            container: "c".into(),
            node: "n".into(),
            pool: pool.into(),
            ..AddressAllocation::default()
        };
        block.entries.insert(offset, entry);
        let cached = CachedBlock { block, version: ResourceVersion("1".into()), uid: String::new() };
        caches.blocks.apply(Event::Apply((key(&name), Some(cached))));
    }
}

fn controller(api: &FakeApi, caches: &AddressCaches, limit: usize) -> SpiderPoolController {
    let settings = ClusterSettings { projection_limit: limit, ..ClusterSettings::for_test() };
    let context = ControllerContext::new(api.client(), settings);
    let lease = Arc::new(SpiderpoolLease::new(api.client()));
    SpiderPoolController::new(&context, caches.clone(), lease, OutdatedRecords::default())
}

fn status(api: &FakeApi, pool: &str) -> Value {
    api.last_body("PATCH", &format!("{POOLS}/{pool}/status"))["status"].clone()
}

#[tokio::test]
async fn a_pool_above_the_limit_shows_only_counts() {
    let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
    add_pool(&caches, "small", 91);
    add_pool(&caches, "large", 92);
    add_entries(&caches, "small", 91, 20);
    add_entries(&caches, "large", 92, 21);
    controller(&api, &caches, 20).reconcile().await.unwrap();
    let small = status(&api, "small");
    let records: serde_json::Map<String, Value> =
        serde_json::from_str(small["allocatedIPs"].as_str().unwrap()).unwrap();
    assert_eq!((records.len(), &small["allocatedIPCount"]), (20, &json!(20)));
    let large = status(&api, "large");
    assert_eq!((&large["allocatedIPs"], &large["allocatedIPCount"]), (&Value::Null, &json!(21)));
    let message = large["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("does not list the 21 addresses"), "{message}");
    let endpoints = api.list_calls().iter().filter(|call| call.contains("/pods/")).count();
    assert_eq!(endpoints, 20, "SpiderEndpoints of the small pool only");
}

#[tokio::test]
async fn switched_off_projections_show_counts_only() {
    let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
    add_pool(&caches, "p", 91);
    add_entries(&caches, "p", 91, 1);
    controller(&api, &caches, 0).reconcile().await.unwrap();
    let shown = status(&api, "p");
    assert_eq!((&shown["allocatedIPs"], &shown["allocatedIPCount"]), (&Value::Null, &json!(1)));
}

#[tokio::test]
async fn a_pool_that_cannot_be_written_does_not_stop_the_others() {
    let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
    for (name, second) in [("a", 91), ("b", 92), ("c", 93)] {
        add_pool(&caches, name, second);
        add_entries(&caches, name, second, 1);
    }
    api.reject(&format!("{POOLS}/a/status"), StatusCode::PAYLOAD_TOO_LARGE);
    let controller = controller(&api, &caches, 1000);
    assert_eq!(controller.reconcile().await.unwrap(), Some(RETRY_PAUSE));
    assert_eq!(
        (&status(&api, "b")["allocatedIPCount"], &status(&api, "c")["allocatedIPCount"]),
        (&json!(1), &json!(1))
    );
    // The next change follows at once, and more of them are gathered.
    let calls = api.list_calls().len();
    add_entries(&caches, "b", 92, 2);
    let wait = controller.reconcile().await.unwrap().unwrap();
    assert!(wait <= WRITE_PAUSE.0, "{wait:?}");
    assert!(!api.list_calls()[calls..].iter().any(|call| call.contains(&format!("{POOLS}/b"))));
}
