//! Defaults of fields that users omit, and values that are derived from several fields.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_api::annotation::RESOURCE_NAME;
use ferroband_api::cncf::{NetworkAttachmentDefinition, NetworkConfig};
use ferroband_api::ferroband::{AddressBlockEntry, FabricName, PartitionMode, PartitionSpec};
use ferroband_api::spiderpool::{CoordinatorSpec, IbSriovSection, SpiderMultusConfigSpec};
use ferroband_api::sriov::{NicSelector, SriovNetworkNodePolicySpec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn policy(more: Value) -> SriovNetworkNodePolicySpec {
    let mut spec = json!({
        "resourceName": "ib", "numVfs": 4, "nodeSelector": {}, "nicSelector": {"vendor": "15b3"},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(spec)
}

#[test]
fn policy_without_options_creates_network_devices_at_the_lowest_priority() {
    let spec = policy(json!({}));
    assert_eq!(spec.device_type, "netdevice");
    assert_eq!((spec.driver(), spec.priority(), spec.requested_link_type()), ("netdevice", 99, None));
    assert!(!spec.is_infiniband() && !spec.uses_rdma());
    assert_eq!(policy(json!({"priority": 10})).priority(), 10);
}

#[test]
fn infiniband_is_requested_by_link_type_or_device_type_and_uses_rdma() {
    for (more, link, rdma) in [
        (json!({"linkType": "ib"}), Some("ib"), true),
        (json!({"linkType": "IB"}), Some("IB"), true),
        (json!({"deviceType": "ib"}), Some("ib"), true),
        (json!({"deviceType": "infiniBand", "linkType": "eth"}), Some("ib"), true),
        (json!({"linkType": "eth"}), Some("eth"), false),
        (json!({"linkType": ""}), None, false),
        (json!({"linkType": "eth", "isRdma": true}), Some("eth"), true),
        (json!({"linkType": "eth", "isRdma": false}), Some("eth"), false),
        (json!({"linkType": "ib", "deviceType": "vfio-pci"}), Some("ib"), false),
        (json!({"isRdma": true, "deviceType": "vfio-pci"}), None, false),
    ] {
        let spec = policy(more.clone());
        let infiniband = link.is_some_and(|link| link.eq_ignore_ascii_case("ib"));
        assert_eq!(
            (spec.requested_link_type(), spec.is_infiniband(), spec.uses_rdma()),
            (link, infiniband, rdma),
            "{more}"
        );
    }
    assert_eq!(policy(json!({"deviceType": "vfio-pci"})).driver(), "vfio-pci");
}

#[test]
fn selector_with_any_field_is_not_empty() {
    let selector = |value: Value| read::<NicSelector>(value);
    assert!(selector(json!({})).is_empty());
    assert!(selector(json!({"vendor": "", "deviceID": "", "pfNames": []})).is_empty());
    for field in [
        json!({"vendor": "15b3"}),
        json!({"deviceID": "101b"}),
        json!({"netFilter": "openstack/NetworkID:x"}),
        json!({"rootDevices": ["0000:86:00.0"]}),
        json!({"pfNames": ["ib0"]}),
    ] {
        assert!(!selector(field.clone()).is_empty(), "{field}");
    }
}

#[test]
fn network_definition_without_configuration_or_resource_has_none() {
    let definition = |config: Value, resource: &str| {
        read::<NetworkAttachmentDefinition>(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "a", "annotations": {RESOURCE_NAME: resource}}, "spec": config,
        }))
    };
    let full = definition(json!({"config": "{}"}), "a.b/c");
    assert_eq!((full.config(), full.resource_name()), (Some("{}"), Some("a.b/c")));
    for empty in [json!({}), json!({"config": ""}), json!({"config": " \n"})] {
        let definition = definition(empty, "");
        assert_eq!((definition.config(), definition.resource_name()), (None, None));
    }
}

#[test]
fn flags_of_a_configuration_may_be_strings_in_any_case() {
    let flags = |check: &str, gc: &str| {
        let text = format!(r#"{{"type":"ipoib","disableCheck":{check},"disableGC":{gc}}}"#);
        NetworkConfig::parse("ns/a", &text, "a").map(|config| (config.disable_check, config.disable_gc))
    };
    assert_eq!(flags("true", "false").unwrap(), (true, false));
    assert_eq!(flags(r#""FALSE""#, r#""True""#).unwrap(), (false, true));
    assert_eq!(flags("null", r#""false""#).unwrap(), (false, false));
    for wrong in [r#""yes""#, r#""""#, "1", "[]"] {
        assert!(flags(wrong, "true").is_err() && flags("true", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn spiderpool_objects_have_upstream_defaults() {
    let coordinator: CoordinatorSpec = read(json!({}));
    let written = serde_json::to_value(&coordinator).unwrap();
    assert_eq!((&written["mode"], &written["tunePodRoutes"]), (&json!("auto"), &json!(true)));
    assert_eq!(written["hostRuleTable"], json!(500));
    let network = serde_json::to_value(read::<SpiderMultusConfigSpec>(json!({}))).unwrap();
    assert_eq!((&network["cniType"], &network["enableCoordinator"]), (&json!("custom"), &json!(true)));
    assert_eq!(read::<IbSriovSection>(json!({})).link_state, "enable");
}

#[test]
fn ordinal_of_an_address_is_written_unless_it_is_0() {
    let entry = AddressBlockEntry { ordinal: 2, ..AddressBlockEntry::default() };
    assert_eq!(serde_json::to_value(&entry).unwrap()["ordinal"], 2);
    let first = serde_json::to_value(AddressBlockEntry::default()).unwrap();
    assert_eq!(first.get("ordinal"), None);
}

#[test]
fn partition_without_a_mode_is_enforced() {
    let spec: PartitionSpec = read(json!({"pkey": "0x3e8", "namespaces": ["red"]}));
    assert_eq!((spec.mode, spec.fabric), (PartitionMode::Enforce, FabricName::Default));
    let Err(error) = serde_json::from_value::<PartitionSpec>(json!({
        "pkey": "0x3e8", "namespaces": [], "fabric": "second",
    })) else {
        panic!("only one fabric is supported")
    };
    assert!(error.to_string().contains("default"), "{error}");
}
