use super::*;
use crate::{ClusterSettings, address::caches::CachedBlock};
use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace, ResourceVersion};
use ferroband_testbed::fake_api::FakeApi;
use http::StatusCode;
use kube::runtime::watcher::Event;
use serde_json::json;

const OBJECTS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system";

fn add_entry(caches: &AddressCaches, third: u8) {
    let (id, offset) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, third, 1].into());
    let (name, mut block) = (id.object_name(), IpBlock::new(id, None));
    let entry = AddressAllocation {
        pod: "ns/p".into(),
        container: "c".into(),
        interface: "net1".into(),
        node: "n".into(),
        pool: format!("10.0.{third}.0/24"),
        ..AddressAllocation::default()
    };
    block.entries.insert(offset, entry);
    let cached = CachedBlock { block, version: ResourceVersion("1".into()), uid: String::new() };
    caches.blocks.apply(Event::Apply(((String::new(), name), Some(cached))));
}

#[tokio::test(start_paused = true)]
async fn one_object_that_fails_or_is_foreign_does_not_stop_the_others() {
    let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
    for kind in ["ippools", "overlappingrangeipreservations"] {
        api.insert_object(&format!("{OBJECTS}/{kind}"), json!({"metadata": {}, "items": []}));
    }
    for third in 1..=3 {
        add_entry(&caches, third);
    }
    let foreign = json!({"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": "10.0.2.0-24"}, "spec": {"range": "10.0.2.0/24", "allocations": {}}});
    api.insert_object(&format!("{OBJECTS}/ippools/10.0.2.0-24"), foreign);
    api.reject(&format!("{OBJECTS}/ippools/10.0.1.0-24"), StatusCode::PAYLOAD_TOO_LARGE);
    let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
    let projection = WhereaboutsProjection::new(&context, caches.clone());
    assert_eq!(projection.reconcile().await.unwrap(), Some(RETRY_PAUSE));
    let calls = api.list_calls();
    let patched: Vec<_> = calls.iter().filter(|call| call.starts_with("PATCH")).collect();
    assert_eq!(patched, [&format!("PATCH {OBJECTS}/ippools/10.0.3.0-24")]);
    let created = calls.iter().filter(|call| call.starts_with("POST")).count();
    assert_eq!(created, 3, "the reservations are written nevertheless: {calls:?}");
    // Nothing changed: nothing is written, and the objects that failed are tried later.
    assert!(projection.reconcile().await.unwrap().is_some());
    assert_eq!(api.list_calls().len(), calls.len());
}
