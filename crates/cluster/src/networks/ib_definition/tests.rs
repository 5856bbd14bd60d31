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
    let generated = desired(&network(spec), "spidernet.io").unwrap();
    let text = generated.definition.config.unwrap();
    // The text is indented by four blanks, as the SR-IOV operator writes it.
    assert!(text.starts_with("{\n    \"cniVersion\": \"1.0.0\",\n    \"name\": \"ib-net\","), "{text}");
    super::super::json_text::compact(&RawValue::from_string(text).unwrap())
}

// Case: operator C35
#[test]
fn capabilities_link_state_and_ipam_are_copied() {
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

// Case: operator C36
#[test]
fn empty_ipam_and_chained_plugins_are_generated() {
    assert_eq!(
        config(json!({"resourceName": "r"})),
        r#"{"cniVersion":"1.0.0","name":"ib-net","type":"ib-sriov","ipam":{}}"#
    );
    assert_eq!(
        config(json!({"resourceName": "r", "metaPlugins": "{\"type\":\"tuning\"} , {\"type\": \"sbr\"}"})),
        r#"{"cniVersion":"1.0.0","name":"ib-net","plugins":[{"type":"ib-sriov","ipam":{}},{"type":"tuning"},{"type":"sbr"}]}"#
    );
}

// Case: operator C42
#[test]
fn a_chained_rdma_plugin_becomes_rdma_isolation_with_a_warning() {
    let spec = json!({"resourceName": "r", "metaPlugins": "{\"type\":\"rdma\"}"});
    assert_eq!(
        config(spec.clone()),
        r#"{"cniVersion":"1.0.0","name":"ib-net","plugins":[{"type":"ib-sriov","rdmaIsolation":true,"ipam":{}}]}"#
    );
    let warnings = desired(&network(spec), "p").unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("rdmaIsolation: true"), "{warnings:?}");
}

#[test]
fn ferroband_fields_are_generated() {
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
fn an_invalid_field_is_rejected_by_name() {
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

#[test]
fn texts_are_limited_in_depth_and_size_before_they_are_rendered() {
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(20_000), "]".repeat(20_000));
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(70_000));
    let many = vec![r#"{"type":"tuning"}"#; 40].join(",");
    for (field, text) in [
        ("ipam", &deep),
        ("capabilities", &deep),
        ("metaPlugins", &deep),
        ("ipam", &long),
        ("capabilities", &long),
        ("metaPlugins", &many),
    ] {
        let mut spec = json!({"resourceName": "r"});
        spec[field] = json!(text);
        let fault = desired(&network(spec), "spidernet.io").unwrap_err().fault("x").to_string();
        assert!(fault.contains(&format!("spec.{field}")) && fault.contains("simplify"), "{fault}");
    }
    // Each line of this text is short, and indentation makes it long.
    let wide = format!(r#"{{"a":{}{}{}}}"#, "[".repeat(30), vec!["0"; 30_000].join(","), "]".repeat(30));
    let fault = desired(&network(json!({"resourceName": "r", "ipam": wide})), "spidernet.io").unwrap_err();
    assert!(fault.to_string().contains("generated CNI configuration"), "{fault}");
}
