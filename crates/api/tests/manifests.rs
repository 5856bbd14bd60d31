//! Objects from upstream documentation, and records that the replaced projects write, can be read without loss.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_api::annotation::{NETWORKS, NetworkSelection};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_api::ferroband::AddressBlock;
use ferroband_api::spiderpool::{
    SpiderCoordinator, SpiderEndpoint, SpiderIPPool, SpiderMultusConfig, SpiderReservedIP,
};
use ferroband_api::sriov::{
    SriovIBNetwork, SriovNetworkNodePolicy, SriovNetworkNodeState, SriovNetworkPoolConfig,
    SriovOperatorConfig,
};
use ferroband_api::whereabouts::{IPPool, OverlappingRangeIPReservation};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

fn objects() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| -> Vec<Value> {
        serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    files.iter().flat_map(read).collect()
}

fn object(kind: &str, name: &str) -> Value {
    let found = objects().into_iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Parses an object and checks that serializing it preserves every field.
fn round_trip<T: DeserializeOwned + Serialize>(kind: &str, name: &str) -> T {
    let object = object(kind, name);
    let typed: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    let back = serde_json::to_value(&typed).unwrap();
    assert_preserved(&format!("{kind} {name}"), &object, &back);
    typed
}

fn assert_preserved(path: &str, written: &Value, back: &Value) {
    match written {
        Value::Object(fields) => {
            for (name, field) in fields {
                assert_preserved(&format!("{path}.{name}"), field, &back[name]);
            }
        }
        other => assert_eq!(other, back, "{path}"),
    }
}

#[test]
fn every_kind_has_an_example() {
    let mut kinds: Vec<_> = objects().iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    // Ferroband's own kinds have no upstream examples: most of them are written by the daemons.
    for crd in ferroband_api::all_crds().into_iter().filter(|crd| crd.spec.group != "ferroband.io") {
        assert!(kinds.contains(&crd.spec.names.kind), "{}", crd.spec.names.kind);
    }
}

#[test]
fn ipoib_network_and_its_pod_are_parsed() {
    let network: NetworkAttachmentDefinition = round_trip("NetworkAttachmentDefinition", "jarvice-ipoib");
    let config = network.network_config().unwrap();
    assert_eq!((config.name.as_str(), config.cni_version.as_str()), ("jarvice-ipoib", "0.3.1"));
    assert_eq!(config.plugins[0]["ipam"]["range"], "192.168.0.0/24");
    let pod = object("Pod", "ipoib-test");
    let selected = NetworkSelection::parse_networks(
        pod["metadata"]["annotations"][NETWORKS].as_str().unwrap(),
        "default",
    );
    assert_eq!(selected.unwrap()[0].display_name(), "default/jarvice-ipoib");
}

#[test]
fn node_policies_are_parsed() {
    let by_address: SriovNetworkNodePolicy = round_trip("SriovNetworkNodePolicy", "ib-sriov");
    assert_eq!(by_address.spec.nic_selector.root_devices, ["0000:86:00.0"]);
    let by_name: SriovNetworkNodePolicy = round_trip("SriovNetworkNodePolicy", "ib-eno3np2");
    assert_eq!((by_name.spec.link_type.as_deref(), by_name.spec.num_vfs), (Some("ib"), 12));
    let legacy: SriovNetworkNodePolicy = round_trip("SriovNetworkNodePolicy", "ib-device-type");
    assert_eq!((legacy.spec.device_type.as_str(), legacy.spec.priority), ("ib", None));
}

#[test]
fn ip_pools_are_parsed() {
    let pool: SpiderIPPool = round_trip("SpiderIPPool", "v4-91");
    assert_eq!((pool.spec.ips[0].as_str(), pool.spec.default), ("172.91.0.100-172.91.0.120", false));
    let host_bits: SpiderIPPool = round_trip("SpiderIPPool", "gpu1-net11");
    assert_eq!(host_bits.spec.subnet, "172.16.11.0/16");
    round_trip::<SpiderReservedIP>("SpiderReservedIP", "appliances");
}

#[test]
fn multus_configs_are_parsed() {
    let configs: Vec<SpiderMultusConfig> = objects()
        .into_iter()
        .filter(|o| o["kind"] == "SpiderMultusConfig")
        .map(|o| serde_json::from_value(o).unwrap())
        .collect();
    let find = |namespace: &str, name: &str| {
        let matches = |c: &&SpiderMultusConfig| {
            (c.metadata.namespace.as_deref(), c.metadata.name.as_deref()) == (Some(namespace), Some(name))
        };
        configs.iter().find(matches).unwrap().spec.clone()
    };
    let sriov = find("kube-system", "ib-sriov").ibsriov.unwrap();
    assert_eq!((sriov.rdma_isolation, sriov.link_state.as_str(), sriov.pkey), (None, "enable", None));
    assert_eq!(sriov.ippools.unwrap().ipv4, ["v4-91"]);
    let mislabelled = find("kube-system", "ipoib");
    assert_eq!((mislabelled.cni_type.as_str(), mislabelled.ibsriov), ("ib-sriov", None));
    assert_eq!(mislabelled.ipoib.unwrap().master.as_deref(), Some("ibs5f0"));
    assert_eq!(find("spiderpool", "gpu1-ib-sriov").ibsriov.unwrap().rdma_isolation, Some(true));
    assert_eq!(find("spiderpool", "ib-sriov").ibsriov.unwrap().pkey, Some(IntOrString::Int(1000)));
}

#[test]
fn other_operator_kinds_are_parsed() {
    let network: SriovIBNetwork = round_trip("SriovIBNetwork", "ib-net");
    assert_eq!(network.spec.pkey, Some(IntOrString::String("0x10".into())));
    let nodes: SriovNetworkPoolConfig = round_trip("SriovNetworkPoolConfig", "rails");
    assert_eq!(nodes.spec.max_unavailable, Some(IntOrString::String("30%".into())));
    round_trip::<SriovOperatorConfig>("SriovOperatorConfig", "default");
    let state: SriovNetworkNodeState = round_trip("SriovNetworkNodeState", "worker1");
    let status = state.status.unwrap();
    assert_eq!((status.interfaces[0].total_vfs, status.interfaces[0].vfs[0].vf_id), (Some(16), 0));
}

#[test]
fn allocation_records_are_parsed() {
    let pool: IPPool = round_trip("IPPool", "192.168.0.0-24");
    assert_eq!(pool.spec.allocations["1"].podref, "ns/p1");
    round_trip::<OverlappingRangeIPReservation>("OverlappingRangeIPReservation", "192.168.0.1");
    let endpoint: SpiderEndpoint = round_trip("SpiderEndpoint", "p1");
    assert_eq!(endpoint.status.unwrap().current.ips[0].ipv4.as_deref(), Some("172.91.0.100/16"));
    let coordinator: SpiderCoordinator = round_trip("SpiderCoordinator", "default");
    assert_eq!((coordinator.spec.mode.as_str(), coordinator.spec.tune_pod_routes), ("auto", true));
    let block: AddressBlock = round_trip("AddressBlock", "default-192.168.0.0");
    assert_eq!((block.spec.entries.len(), block.spec.entries["1"].sticky), (1, false));
}
