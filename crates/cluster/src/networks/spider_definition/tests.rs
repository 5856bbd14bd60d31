use super::*;
use serde_json::{Value, json};

fn object(name: &str, annotations: Value, spec: Value) -> SpiderMultusConfig {
    serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": name, "namespace": "kube-system", "uid": "u", "annotations": annotations}, "spec": spec,
    }))
    .unwrap()
}

fn config(spec: Value) -> String {
    desired(&object("ib-sriov", json!({}), spec)).unwrap().definition.config.unwrap()
}

fn rejection_of(annotations: Value, spec: Value) -> String {
    desired(&object("x", annotations, spec))
        .unwrap_err()
        .fault("SpiderMultusConfig kube-system/x")
        .to_string()
}

fn documented_spec() -> Value {
    json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "spidernet.io/mellanoxibsriov", "ippools": {"ipv4": ["v4-91"]}}})
}

const COORDINATOR: &str = r#"{"txQueueLen":0,"tunePodRoutes":true,"mode":"auto","type":"coordinator"}"#;
const IPAM: &str = r#"{"type":"spiderpool","default_ipv4_ippool":["v4-91"]}"#;

// Case: ipam M01
#[test]
fn the_documented_ib_sriov_config_generates_its_definition() {
    let object = object(
        "ib-sriov",
        json!({"a/b": "c", "kubectl.kubernetes.io/last-applied-configuration": "x"}),
        documented_spec(),
    );
    let generated = desired(&object).unwrap();
    assert_eq!(generated.warnings, Vec::<String>::new());
    let definition = generated.definition;
    assert_eq!((definition.namespace.as_str(), definition.name.as_str()), ("kube-system", "ib-sriov"));
    // rdmaIsolation is omitted, so the node's RDMA mode decides (docs/decisions/0023).
    assert_eq!(
        definition.config.unwrap(),
        format!(
            r#"{{"cniVersion":"0.3.1","name":"ib-sriov","plugins":[{{"type":"ib-sriov","pkey":"","link_state":"enable","ibKubernetesEnabled":false,"ipam":{IPAM}}},{COORDINATOR}]}}"#
        )
    );
    let annotations: Vec<_> = definition.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(annotations, [("a/b", "c"), (RESOURCE_NAME, "spidernet.io/mellanoxibsriov")]);
    let owner = definition.controller.unwrap();
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
        ("SpiderMultusConfig", "u", Some(true))
    );
}

// Case: ipam M02
#[test]
fn the_section_overrides_a_wrong_cni_type_with_a_warning() {
    let spec = json!({"cniType": "ib-sriov", "ipoib": {"master": "ibs5f0", "ippools": {"ipv4": ["v4-91"]}}});
    let generated = desired(&object("ipoib", json!({}), spec)).unwrap();
    assert_eq!(
        generated.definition.config.unwrap(),
        format!(
            r#"{{"cniVersion":"0.3.1","name":"ipoib","plugins":[{{"type":"ipoib","master":"ibs5f0","ipam":{IPAM}}},{COORDINATOR}]}}"#
        )
    );
    assert!(generated.warnings[0].ends_with("set cniType: ipoib"), "{:?}", generated.warnings);
    assert_eq!(generated.definition.annotations.get(RESOURCE_NAME), None);
    let fault = rejection_of(json!({}), json!({"cniType": "ib-sriov"}));
    assert!(fault.contains("section ibsriov is not set"), "{fault}");
}

// Case: ipam M03
#[test]
fn an_ipoib_config_generates_its_definition() {
    let spec = json!({"cniType": "ipoib", "ipoib": {"master": "ibs5f0", "ippools": {"ipv4": ["v4-91"]}}});
    let generated = desired(&object("ipoib", json!({}), spec)).unwrap();
    let plugins = format!(r#"[{{"type":"ipoib","master":"ibs5f0","ipam":{IPAM}}},{COORDINATOR}]"#);
    assert_eq!(
        generated.definition.config.unwrap(),
        format!(r#"{{"cniVersion":"0.3.1","name":"ipoib","plugins":{plugins}}}"#)
    );
    assert!(generated.warnings.is_empty(), "{:?}", generated.warnings);
}

// Case: ipam M04
#[test]
fn a_pkey_may_be_a_number_or_text() {
    let of = |pkey: Value| json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "pkey": pkey}});
    assert!(config(of(json!(1000))).contains(r#""pkey":"0x03e8""#));
    assert!(config(of(json!("1000"))).contains(r#""pkey":"0x03e8""#));
    assert!(config(of(json!("0x10"))).contains(r#""pkey":"0x10""#));
    assert!(config(of(json!(33768))).contains(r#""pkey":"0x03e8""#));
    for wrong in [json!("0x7fff"), json!("0xffff"), json!(32767), json!("0x8000")] {
        let fault = rejection_of(json!({}), of(wrong.clone()));
        assert!(
            fault.contains("spec.ibsriov.pkey") && fault.contains("0x0001 to 0x7ffe"),
            "{wrong}: {fault}"
        );
    }
    let fault = rejection_of(json!({}), of(json!("zz")));
    assert!(fault.contains("spec.ibsriov.pkey"), "{fault}");
}

// Case: ipam M05
#[test]
fn rdma_isolation_is_generated_only_if_set() {
    let of = |isolation: Value| json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "rdmaIsolation": isolation}});
    assert!(config(of(json!(true))).contains(r#""rdmaIsolation":true"#));
    assert!(config(of(json!(false))).contains(r#""rdmaIsolation":false"#));
    assert!(!config(documented_spec()).contains("rdmaIsolation"));
    let sriov =
        |section: Value| config(json!({"cniType": "sriov", "enableCoordinator": false, "sriov": section}));
    assert!(!sriov(json!({"resourceName": "a.b/c"})).contains("rdma"));
    assert!(sriov(json!({"resourceName": "a.b/c", "rdmaIsolation": true})).contains(r#"{"type":"rdma"}"#));
}

// Case: ipam M06, ipam M07
#[test]
fn ipam_and_coordinator_can_be_disabled() {
    let mut spec = documented_spec();
    spec["disableIPAM"] = json!(true);
    assert!(!config(spec.clone()).contains("ipam"));
    spec["enableCoordinator"] = json!(false);
    assert_eq!(
        config(spec),
        r#"{"cniVersion":"0.3.1","name":"ib-sriov","plugins":[{"type":"ib-sriov","pkey":"","link_state":"enable","ibKubernetesEnabled":false}]}"#
    );
}

// Case: ipam M08
#[test]
fn two_sections_are_rejected() {
    let fault = rejection_of(
        json!({}),
        json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}, "macvlan": {"master": ["eth0"]}}),
    );
    assert!(fault.contains("macvlan and ibsriov"), "{fault}");
}

// Case: ipam M10
#[test]
fn the_definition_can_have_another_name() {
    let named = object(
        "x",
        json!({NAME_ANNOTATION: "other.name", CONFIG_NAME_ANNOTATION: "conf"}),
        documented_spec(),
    );
    let definition = desired(&named).unwrap().definition;
    assert_eq!(definition.name, "other.name");
    assert!(definition.config.unwrap().contains(r#""name":"conf""#));
    assert!(
        rejection_of(json!({NAME_ANNOTATION: "Not_A.name"}), documented_spec()).contains(NAME_ANNOTATION)
    );
}

// Case: ipam M11
#[test]
fn only_supported_cni_versions_are_accepted() {
    let definition = desired(&object("x", json!({CNI_VERSION_ANNOTATION: "1.0.0"}), documented_spec()))
        .unwrap()
        .definition;
    assert!(definition.config.unwrap().starts_with(r#"{"cniVersion":"1.0.0""#));
    assert!(rejection_of(json!({CNI_VERSION_ANNOTATION: "0.2.0"}), documented_spec()).contains("0.3.1"));
}

// Case: ipam M14
#[test]
fn a_custom_configuration_is_copied_unchanged() {
    let written = "{ \"type\": \"x\",  \"b\": 1, \"a\": 2 }";
    assert_eq!(config(json!({"cniType": "custom", "customCNI": written})), written);
    let empty = desired(&object("x", json!({}), json!({"cniType": "custom"}))).unwrap();
    assert_eq!(empty.definition.config, None);
    assert!(
        rejection_of(json!({}), json!({"cniType": "custom", "customCNI": "{"}))
            .contains("spec.customCNI is not JSON")
    );
    let both = json!({"cniType": "custom", "customCNI": "{}", "ipoib": {"master": "ib0"}});
    assert!(rejection_of(json!({}), both).contains("set together"));
}

// Case: ipam M17
#[test]
fn a_network_in_a_group_needs_ippools_and_a_resource() {
    for key in GROUP_ANNOTATIONS {
        assert!(desired(&object("x", json!({key: "rails"}), documented_spec())).is_ok());
        let bare = json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}});
        assert!(rejection_of(json!({key: "rails"}), bare).contains("no ippools"));
        assert!(
            rejection_of(json!({key: "rails"}), json!({"cniType": "custom", "customCNI": "{}"}))
                .contains("cannot be in a group")
        );
    }
    let macvlan = json!({"cniType": "macvlan", "macvlan": {"master": ["eth0"], "ippools": {"ipv4": ["p"]}}});
    assert!(rejection_of(json!({GROUP_ANNOTATIONS[0]: "rails"}), macvlan.clone()).contains("no resource"));
    assert!(desired(&object("x", json!({GROUP_ANNOTATIONS[1]: "rails"}), macvlan)).is_ok());
}

#[test]
fn chained_plugins_come_before_the_coordinator_and_a_chained_rdma_plugin_becomes_rdma_isolation() {
    let mut spec = documented_spec();
    spec["chainCNIJsonData"] =
        json!(["{ \"type\": \"tuning\", \"z\": [1, 2], \"a\": \"b c\" }", "{\"type\":\"rdma\"}"]);
    let generated = desired(&object("x", json!({}), spec.clone())).unwrap();
    let config = generated.definition.config.unwrap();
    let tail = format!(r#"}},{{"type":"tuning","z":[1,2],"a":"b c"}},{COORDINATOR}]}}"#);
    assert!(config.ends_with(&tail) && config.contains(r#""rdmaIsolation":true"#), "{config}");
    assert!(generated.warnings[0].contains("rdmaIsolation: true"));
    spec["chainCNIJsonData"] = json!(["{}"]);
    assert!(rejection_of(json!({}), spec.clone()).contains("chainCNIJsonData[0]"));
    spec["chainCNIJsonData"] = json!(["["]);
    assert!(rejection_of(json!({}), spec).contains("not JSON"));
}

#[test]
fn the_coordinator_entry_has_the_settings_of_its_section() {
    let mut spec = documented_spec();
    spec["coordinator"] = json!({
        "mode": "underlay", "tunePodRoutes": false, "txQueueLen": 7, "vethLinkAddress": "169.254.1.1", "vethMTU": 1400,
        "podDefaultRouteNIC": "net1", "podRPFilter": 2, "hijackCIDR": ["10.0.0.0/8"], "policyRoutes": [{"dst": "1.0.0.0/8", "gw": "172.91.0.1"}],
        "podMACPrefix": "0a:1b",
    });
    let entry = r#"{"txQueueLen":7,"vethLinkAddress":"169.254.1.1","vethMTU":1400,"tunePodRoutes":false,"podMACPrefix":"0a:1b","mode":"underlay","type":"coordinator","podDefaultRouteNic":"net1","podRPFilter":2,"hijackCIDR":["10.0.0.0/8"],"policyRoutes":[{"dst":"1.0.0.0/8","gw":"172.91.0.1"}]}]}"#;
    assert!(config(spec.clone()).ends_with(entry), "{}", config(spec));
}

#[test]
fn the_mtu_is_set_on_the_plugin_that_applies_it() {
    let mut spec = documented_spec();
    spec["ibsriov"]["mtu"] = json!(4092);
    assert!(config(spec).contains(r#""mtu":4092,"ipam""#));
    assert!(
        config(json!({"cniType": "ipoib", "ipoib": {"master": "ib0", "mtu": 2000}}))
            .contains(r#""mtu":2000"#)
    );
    let sriov = config(json!({"cniType": "sriov", "sriov": {"resourceName": "a.b/c", "mtu": 8000}}));
    assert!(sriov.ends_with(r#"{"type":"tuning","mtu":8000}]}"#), "{sriov}");
}

#[test]
fn an_invalid_config_reports_the_field_to_set() {
    assert!(
        rejection_of(json!({}), json!({"cniType": "ib-sriov", "ibsriov": {}}))
            .contains("set spec.ibsriov.resourceName")
    );
    assert!(
        rejection_of(json!({}), json!({"cniType": "ipoib", "ipoib": {}})).contains("set spec.ipoib.master")
    );
    let bare = json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "eno3np2"}});
    assert!(rejection_of(json!({}), bare).contains("spec.ibsriov.resourceName"));
    let bond = json!({"cniType": "macvlan", "macvlan": {"master": ["a", "b"]}});
    assert!(rejection_of(json!({}), bond).contains("customCNI"));
}

#[test]
fn texts_are_limited_in_depth_and_size_before_they_are_rendered() {
    let deep = format!(r#"{{"type":"a","b":{}{}}}"#, "[".repeat(20_000), "]".repeat(20_000));
    let custom = rejection_of(json!({}), json!({"cniType": "custom", "customCNI": deep}));
    assert!(custom.contains("spec.customCNI is nested deeper"), "{custom}");
    let mut spec = documented_spec();
    spec["chainCNIJsonData"] = json!([deep]);
    let chained = rejection_of(json!({}), spec.clone());
    assert!(chained.contains("spec.chainCNIJsonData[0] is nested deeper"), "{chained}");
    spec["chainCNIJsonData"] = json!(vec![r#"{"type":"tuning"}"#; 40]);
    assert!(rejection_of(json!({}), spec.clone()).contains("40 plugins"));
    let padded = format!(r#"{{"type":"tuning","a":"{}"}}"#, "x".repeat(10_000));
    spec["chainCNIJsonData"] = json!(vec![padded; 20]);
    assert!(rejection_of(json!({}), spec).contains("generated CNI configuration"));
}
