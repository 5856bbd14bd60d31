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

fn refused(annotations: Value, spec: Value) -> String {
    desired(&object("x", annotations, spec))
        .unwrap_err()
        .fault("SpiderMultusConfig kube-system/x")
        .to_string()
}

fn seed() -> Value {
    json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "spidernet.io/mellanoxibsriov", "ippools": {"ipv4": ["v4-91"]}}})
}

const COORDINATOR: &str = r#"{"txQueueLen":0,"tunePodRoutes":true,"mode":"auto","type":"coordinator"}"#;
const IPAM: &str = r#"{"type":"spiderpool","default_ipv4_ippool":["v4-91"]}"#;

#[test]
fn m01_the_ib_sriov_network_of_the_document() {
    let object = object(
        "ib-sriov",
        json!({"a/b": "c", "kubectl.kubernetes.io/last-applied-configuration": "x"}),
        seed(),
    );
    let wanted = desired(&object).unwrap();
    assert_eq!(wanted.warnings, Vec::<String>::new());
    let definition = wanted.definition;
    assert_eq!((definition.namespace.as_str(), definition.name.as_str()), ("kube-system", "ib-sriov"));
    // Without rdmaIsolation: omitted, it is as the node's RDMA mode is (docs/decisions/0023).
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

#[test]
fn m02_the_section_decides_and_the_author_is_told() {
    let spec = json!({"cniType": "ib-sriov", "ipoib": {"master": "ibs5f0", "ippools": {"ipv4": ["v4-91"]}}});
    let wanted = desired(&object("ipoib", json!({}), spec)).unwrap();
    assert_eq!(
        wanted.definition.config.unwrap(),
        format!(
            r#"{{"cniVersion":"0.3.1","name":"ipoib","plugins":[{{"type":"ipoib","master":"ibs5f0","ipam":{IPAM}}},{COORDINATOR}]}}"#
        )
    );
    assert!(wanted.warnings[0].ends_with("write cniType: ipoib"), "{:?}", wanted.warnings);
    assert_eq!(wanted.definition.annotations.get(RESOURCE_NAME), None);
    let fault = refused(json!({}), json!({"cniType": "ib-sriov"}));
    assert!(fault.contains("no section ibsriov"), "{fault}");
}

#[test]
fn m03_the_ipoib_network_of_the_document_with_its_right_type() {
    let spec = json!({"cniType": "ipoib", "ipoib": {"master": "ibs5f0", "ippools": {"ipv4": ["v4-91"]}}});
    let wanted = desired(&object("ipoib", json!({}), spec)).unwrap();
    let plugins = format!(r#"[{{"type":"ipoib","master":"ibs5f0","ipam":{IPAM}}},{COORDINATOR}]"#);
    assert_eq!(
        wanted.definition.config.unwrap(),
        format!(r#"{{"cniVersion":"0.3.1","name":"ipoib","plugins":{plugins}}}"#)
    );
    assert!(wanted.warnings.is_empty(), "{:?}", wanted.warnings);
}

#[test]
fn m04_partitions_as_numbers_and_texts() {
    let of = |pkey: Value| json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "pkey": pkey}});
    assert!(config(of(json!(1000))).contains(r#""pkey":"0x03e8""#));
    assert!(config(of(json!("1000"))).contains(r#""pkey":"0x03e8""#));
    assert!(config(of(json!("0x10"))).contains(r#""pkey":"0x10""#));
    let fault = refused(json!({}), of(json!("zz")));
    assert!(fault.contains("spec.ibsriov.pkey"), "{fault}");
}

#[test]
fn m05_isolation_is_written_where_it_is_asked_for() {
    let of = |isolation: Value| json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "rdmaIsolation": isolation}});
    assert!(config(of(json!(true))).contains(r#""rdmaIsolation":true"#));
    assert!(config(of(json!(false))).contains(r#""rdmaIsolation":false"#));
    assert!(!config(seed()).contains("rdmaIsolation"));
    let sriov =
        |section: Value| config(json!({"cniType": "sriov", "enableCoordinator": false, "sriov": section}));
    assert!(!sriov(json!({"resourceName": "a.b/c"})).contains("rdma"));
    assert!(sriov(json!({"resourceName": "a.b/c", "rdmaIsolation": true})).contains(r#"{"type":"rdma"}"#));
}

#[test]
fn m06_m07_without_addresses_and_without_coordinator() {
    let mut spec = seed();
    spec["disableIPAM"] = json!(true);
    assert!(!config(spec.clone()).contains("ipam"));
    spec["enableCoordinator"] = json!(false);
    assert_eq!(
        config(spec),
        r#"{"cniVersion":"0.3.1","name":"ib-sriov","plugins":[{"type":"ib-sriov","pkey":"","link_state":"enable","ibKubernetesEnabled":false}]}"#
    );
}

#[test]
fn m08_two_sections_are_refused() {
    let fault = refused(
        json!({}),
        json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}, "macvlan": {"master": ["eth0"]}}),
    );
    assert!(fault.contains("macvlan and ibsriov"), "{fault}");
}

#[test]
fn m10_the_definition_may_have_another_name() {
    let named = object("x", json!({NAME_ANNOTATION: "other.name", CONFIG_NAME_ANNOTATION: "conf"}), seed());
    let definition = desired(&named).unwrap().definition;
    assert_eq!(definition.name, "other.name");
    assert!(definition.config.unwrap().contains(r#""name":"conf""#));
    assert!(refused(json!({NAME_ANNOTATION: "Not_A.name"}), seed()).contains(NAME_ANNOTATION));
}

#[test]
fn m11_the_version_is_one_of_four() {
    let definition =
        desired(&object("x", json!({CNI_VERSION_ANNOTATION: "1.0.0"}), seed())).unwrap().definition;
    assert!(definition.config.unwrap().starts_with(r#"{"cniVersion":"1.0.0""#));
    assert!(refused(json!({CNI_VERSION_ANNOTATION: "0.2.0"}), seed()).contains("0.3.1"));
}

#[test]
fn m14_a_custom_configuration_is_passed_on_as_written() {
    let written = "{ \"type\": \"x\",  \"b\": 1, \"a\": 2 }";
    assert_eq!(config(json!({"cniType": "custom", "customCNI": written})), written);
    let empty = desired(&object("x", json!({}), json!({"cniType": "custom"}))).unwrap();
    assert_eq!(empty.definition.config, None);
    assert!(
        refused(json!({}), json!({"cniType": "custom", "customCNI": "{"}))
            .contains("spec.customCNI is not JSON")
    );
    let both = json!({"cniType": "custom", "customCNI": "{}", "ipoib": {"master": "ib0"}});
    assert!(refused(json!({}), both).contains("given together"));
}

#[test]
fn m17_a_network_of_a_group_has_pools_and_a_resource() {
    for key in GROUP_ANNOTATIONS {
        assert!(desired(&object("x", json!({key: "rails"}), seed())).is_ok());
        let bare = json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}});
        assert!(refused(json!({key: "rails"}), bare).contains("no ippools"));
        assert!(
            refused(json!({key: "rails"}), json!({"cniType": "custom", "customCNI": "{}"}))
                .contains("by group")
        );
    }
    let macvlan = json!({"cniType": "macvlan", "macvlan": {"master": ["eth0"], "ippools": {"ipv4": ["p"]}}});
    assert!(refused(json!({GROUP_ANNOTATIONS[0]: "rails"}), macvlan.clone()).contains("no resource"));
    assert!(desired(&object("x", json!({GROUP_ANNOTATIONS[1]: "rails"}), macvlan)).is_ok());
}

#[test]
fn chained_plugins_come_before_the_coordinator_and_rdma_is_the_functions_own_business() {
    let mut spec = seed();
    spec["chainCNIJsonData"] =
        json!(["{ \"type\": \"tuning\", \"z\": [1, 2], \"a\": \"b c\" }", "{\"type\":\"rdma\"}"]);
    let wanted = desired(&object("x", json!({}), spec.clone())).unwrap();
    let config = wanted.definition.config.unwrap();
    let tail = format!(r#"}},{{"type":"tuning","z":[1,2],"a":"b c"}},{COORDINATOR}]}}"#);
    assert!(config.ends_with(&tail) && config.contains(r#""rdmaIsolation":true"#), "{config}");
    assert!(wanted.warnings[0].contains("rdmaIsolation: true"));
    spec["chainCNIJsonData"] = json!(["{}"]);
    assert!(refused(json!({}), spec.clone()).contains("chainCNIJsonData[0]"));
    spec["chainCNIJsonData"] = json!(["["]);
    assert!(refused(json!({}), spec).contains("not JSON"));
}

#[test]
fn the_coordinator_says_what_its_section_says() {
    let mut spec = seed();
    spec["coordinator"] = json!({
        "mode": "underlay", "tunePodRoutes": false, "txQueueLen": 7, "vethLinkAddress": "169.254.1.1", "vethMTU": 1400,
        "podDefaultRouteNIC": "net1", "podRPFilter": 2, "hijackCIDR": ["10.0.0.0/8"], "policyRoutes": [{"dst": "1.0.0.0/8", "gw": "172.91.0.1"}],
        "podMACPrefix": "0a:1b",
    });
    let entry = r#"{"txQueueLen":7,"vethLinkAddress":"169.254.1.1","vethMTU":1400,"tunePodRoutes":false,"podMACPrefix":"0a:1b","mode":"underlay","type":"coordinator","podDefaultRouteNic":"net1","podRPFilter":2,"hijackCIDR":["10.0.0.0/8"],"policyRoutes":[{"dst":"1.0.0.0/8","gw":"172.91.0.1"}]}]}"#;
    assert!(config(spec.clone()).ends_with(entry), "{}", config(spec));
}

#[test]
fn an_mtu_goes_to_the_plugin_that_sets_it() {
    let mut spec = seed();
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
fn what_cannot_be_a_network_says_what_to_set() {
    assert!(
        refused(json!({}), json!({"cniType": "ib-sriov", "ibsriov": {}}))
            .contains("set spec.ibsriov.resourceName")
    );
    assert!(refused(json!({}), json!({"cniType": "ipoib", "ipoib": {}})).contains("set spec.ipoib.master"));
    let bare = json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "eno3np2"}});
    assert!(refused(json!({}), bare).contains("spec.ibsriov.resourceName"));
    let bond = json!({"cniType": "macvlan", "macvlan": {"master": ["a", "b"]}});
    assert!(refused(json!({}), bond).contains("customCNI"));
}
