use super::*;
use serde_json::{Value, json};

fn network(spec: Value) -> SriovIBNetwork {
    serde_json::from_value(json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
        "metadata": {"name": "ib-net", "namespace": "user1", "uid": "u"}, "spec": spec,
    }))
    .unwrap()
}

fn config(spec: Value) -> String {
    let wanted = desired(&network(spec), "spidernet.io").unwrap();
    let text = wanted.definition.config.unwrap();
    // Four blanks for each level, as the operator stores it.
    assert!(text.starts_with("{\n    \"cniVersion\": \"1.0.0\",\n    \"name\": \"ib-net\","), "{text}");
    super::super::json_text::compact(&RawValue::from_string(text).unwrap())
}

#[test]
fn c35_capabilities_link_state_and_addresses() {
    let spec = json!({
        "resourceName": "r", "capabilities": "{ \"infinibandGUID\": true }", "linkState": "enable",
        "ipam": "{ \"type\": \"whereabouts\",\n \"range\": \"10.0.0.0/24\" }",
    });
    assert_eq!(
        config(spec.clone()),
        r#"{"cniVersion":"1.0.0","name":"ib-net","type":"ib-sriov","capabilities":{"infinibandGUID":true},"link_state":"enable","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}"#
    );
    let definition = desired(&network(spec), "spidernet.io").unwrap().definition;
    assert_eq!((definition.namespace.as_str(), definition.name.as_str()), ("user1", "ib-net"));
    assert_eq!(definition.annotations[RESOURCE_NAME], "spidernet.io/r");
    assert_eq!(definition.annotations[OWNER_REF], "SriovIBNetwork.sriovnetwork.openshift.io/user1/ib-net");
    let owner = definition.controller.unwrap();
    assert_eq!((owner.uid.as_str(), owner.controller), ("u", Some(true)));
}

#[test]
fn c36_no_addresses_and_chained_plugins() {
    assert_eq!(
        config(json!({"resourceName": "r"})),
        r#"{"cniVersion":"1.0.0","name":"ib-net","type":"ib-sriov","ipam":{}}"#
    );
    assert_eq!(
        config(json!({"resourceName": "r", "metaPlugins": "{\"type\":\"tuning\"} , {\"type\": \"sbr\"}"})),
        r#"{"cniVersion":"1.0.0","name":"ib-net","plugins":[{"type":"ib-sriov","ipam":{}},{"type":"tuning"},{"type":"sbr"}]}"#
    );
}

#[test]
fn c42_a_chained_rdma_plugin_becomes_isolation_and_a_warning() {
    let spec = json!({"resourceName": "r", "metaPlugins": "{\"type\":\"rdma\"}"});
    assert_eq!(
        config(spec.clone()),
        r#"{"cniVersion":"1.0.0","name":"ib-net","plugins":[{"type":"ib-sriov","rdmaIsolation":true,"ipam":{}}]}"#
    );
    let warnings = desired(&network(spec), "p").unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("rdmaIsolation: true"), "{warnings:?}");
}

#[test]
fn the_fields_that_are_ours() {
    let spec =
        json!({"resourceName": "r", "pkey": "0x8001", "rdmaIsolation": false, "ibKubernetesEnabled": true});
    assert_eq!(
        config(spec),
        r#"{"cniVersion":"1.0.0","name":"ib-net","type":"ib-sriov","pkey":"0x8001","rdmaIsolation":false,"ibKubernetesEnabled":true,"ipam":{}}"#
    );
    let elsewhere = network(json!({"resourceName": "r", "networkNamespace": "user2"}));
    let definition = desired(&elsewhere, "p.example").unwrap().definition;
    assert_eq!((definition.namespace.as_str(), definition.controller), ("user2", None));
}

#[test]
fn what_is_no_json_is_refused_by_the_name_of_its_field() {
    for (field, spec) in [
        ("spec.ipam", json!({"resourceName": "r", "ipam": "{'type': 'x'}"})),
        ("spec.ipam", json!({"resourceName": "r", "ipam": "[]"})),
        ("spec.capabilities", json!({"resourceName": "r", "capabilities": "foo"})),
        (
            "spec.metaPlugins",
            json!({"resourceName": "r", "metaPlugins": "{\"type\":\"a\"} {\"type\":\"b\"}"}),
        ),
        ("spec.metaPlugins", json!({"resourceName": "r", "metaPlugins": "{}"})),
        ("spec.resourceName", json!({"resourceName": "-r"})),
        ("spec.pkey", json!({"resourceName": "r", "pkey": 0})),
    ] {
        let fault = desired(&network(spec), "p").unwrap_err().fault("SriovIBNetwork user1/ib-net");
        assert!(fault.to_string().contains(field), "{fault}");
    }
}
