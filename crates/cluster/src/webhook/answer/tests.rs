use super::*;
use crate::{ClusterSettings, ControllerContext, networks::NetworkCaches};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;
use proptest::prelude::*;
use serde_json::json;

fn context() -> WebhookContext {
    let controller = ControllerContext::new(FakeApi::default().client(), ClusterSettings::for_test());
    let caches = NetworkCaches::default();
    for (name, resource) in [("ib", "a.b/c"), ("claim", "vf-template"), ("native", "kubernetes.io/vf")] {
        let network = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": "d", "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource}},
        });
        let network: NetworkAttachmentDefinition = serde_json::from_value(network).unwrap();
        caches.definitions.apply(Event::Apply((("d".into(), name.into()), Some(network))));
    }
    for (namespace, name) in [("kube-system", "trusted-rail"), ("d", "own-rail"), ("evil", "evil-rail")] {
        apply_rail(&caches, namespace, name, "rails", "a.b/c");
    }
    // Invalid, and in a group that a trusted namespace has as well.
    apply_rail(&caches, "evil", "broken", "rails", "not a resource");
    apply_rail(&caches, "evil", "alone", "evil-group", "a.b/c");
    WebhookContext::new(&controller, &caches)
}

fn apply_rail(caches: &NetworkCaches, namespace: &str, name: &str, group: &str, resource: &str) {
    let rail = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": name, "namespace": namespace,
            "annotations": {"cni.spidernet.io/rdma-resource-inject": group}},
        "spec": {"cniType": "ib-sriov", "ibsriov": {"resourceName": resource, "ippools": {"ipv4": ["p"]}}},
    });
    let rail = serde_json::from_value(rail).unwrap();
    caches.spider_configs.apply(Event::Apply(((namespace.into(), name.into()), Some(rail))));
}

/// Valid requests that use all parts of an object that the webhook reads.
fn valid_requests() -> Vec<(&'static str, Value)> {
    let review = |kind: &str, object: Value, old: Value| json!({"request": {"uid": "u", "kind": {"kind": kind}, "namespace": "d", "object": object, "oldObject": old}});
    let pod = json!({
        "metadata": {"name": "p", "annotations": {
            "k8s.v1.cni.cncf.io/networks": r#"[{"name":"ib","cni-args":{"guid":"x"},"ips":["10.0.0.1"]}]"#,
            "v1.multus-cni.io/default-network": "ib",
            "k8s.v1.cni.cncf.io/network": "ib",
        }},
        "spec": {
            "hostNetwork": false,
            "resourceClaims": [{"name": "c"}],
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "b", "resources": {"limits": {"x.y/z": "1"}}}],
        },
    });
    let requested = json!({
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "ib,ib"}},
        "spec": {"containers": [{"name": "a", "resources": {"limits": {"a.b/c": "1"}}}]},
    });
    let pool = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "172.91.0.0/16", "ips": ["172.91.0.100-172.91.0.120"], "excludeIPs": ["172.91.0.110"],
            "gateway": "172.91.0.1", "ipVersion": 4, "routes": [{"dst": "10.0.0.0/8", "gw": "172.91.0.1"}],
            "podAffinity": {"matchLabels": {"a": "b"}}, "nodeName": ["n"], "multusName": ["d/ib"]},
        "status": {"allocatedIPs": r#"{"172.91.0.105":{"pod":"team/train-0","podUid":"u"}}"#},
    });
    let config = |spec: Value| {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
            "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {
                "cni.spidernet.io/rdma-resource-inject": "rails", "multus.spidernet.io/cni-version": "1.0.0"}},
            "spec": spec,
        })
    };
    let ib_sriov = config(json!({
        "cniType": "ib-sriov", "enableCoordinator": true, "chainCNIJsonData": [r#"{"type":"tuning"}"#],
        "coordinator": {"mode": "auto", "podRPFilter": 0, "podMACPrefix": "0a:1b", "hijackCIDR": ["10.0.0.0/8"]},
        "ibsriov": {"resourceName": "a.b/c", "pkey": "0x3e8", "mtu": 2048, "ippools": {"ipv4": ["p"]}},
    }));
    let macvlan = config(json!({
        "cniType": "macvlan", "macvlan": {"master": ["eth0"], "rdmaResourceName": "a.b/c", "ippools": {"ipv4": ["p"]}},
    }));
    let network = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork", "metadata": {"name": "n"},
        "spec": {"resourceName": "r", "networkNamespace": "d", "pkey": "0x5", "ipam": r#"{"type":"whereabouts"}"#,
            "metaPlugins": r#"{"type":"rdma"}"#, "capabilities": r#"{"infinibandGUID": true}"#, "linkState": "auto"},
    });
    vec![
        ("/pods", review("Pod", pod, Value::Null)),
        ("/pods", review("Pod", requested, Value::Null)),
        ("/pools", review("SpiderIPPool", pool.clone(), pool)),
        ("/networks", review("SpiderMultusConfig", ib_sriov.clone(), ib_sriov)),
        ("/networks", review("SpiderMultusConfig", macvlan, Value::Null)),
        ("/networks", review("SriovIBNetwork", network.clone(), network)),
    ]
}

/// Lists the JSON pointers of all values inside `value`.
fn pointers(value: &Value, prefix: &str, found: &mut Vec<String>) {
    found.push(prefix.to_owned());
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                pointers(value, &format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| pointers(value, &format!("{prefix}/{at}"), found));
        }
        _ => {}
    }
}

fn odd_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(4_294_967_295_u64),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("[{\"name\":5}]"),
        json!("\u{212a}é[{\"}\0"),
        json!("0.0.0.0-255.255.255.255"),
        json!("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        json!([]),
        json!([[null]]),
        json!(["x", 5, {}]),
        json!({}),
        json!({"x": {"y": "z"}, "": null}),
    ]
}

/// Returns whether the answer is a review, and panics if it is neither that nor an error with a text.
fn check_answer(status: StatusCode, text: &str, request: &Value) -> bool {
    match status {
        StatusCode::OK => {
            let review: Value = serde_json::from_str(text).unwrap();
            assert!(review["response"]["allowed"].is_boolean(), "{request}: {review}");
            true
        }
        StatusCode::BAD_REQUEST => {
            assert!(!text.is_empty(), "{request}");
            false
        }
        other => panic!("{request}: {other} {text}"),
    }
}

#[tokio::test]
async fn every_value_of_a_request_may_be_of_any_type() {
    let context = context();
    let mut reviews = 0;
    for (path, valid) in valid_requests() {
        let (status, text) = answer(path, valid.to_string().as_bytes(), &context).await;
        assert!(check_answer(status, &text, &valid), "{valid}");
        let mut all = Vec::new();
        pointers(&valid, "", &mut all);
        for (pointer, odd) in
            all.iter().flat_map(|pointer| odd_values().into_iter().map(move |odd| (pointer, odd)))
        {
            let mut request = valid.clone();
            *request.pointer_mut(pointer).unwrap() = odd;
            let (status, text) = answer(path, request.to_string().as_bytes(), &context).await;
            reviews += u32::from(check_answer(status, &text, &request));
        }
    }
    assert!(reviews > 1000, "only {reviews} requests were decoded");
}

#[tokio::test]
async fn a_body_that_is_no_review_is_a_bad_request() {
    let context = context();
    let deep = "[".repeat(1 << 20);
    for body in ["", "{", "null", "[]", "{\"request\":{}}", "\u{0}", deep.as_str()] {
        let (status, text) = answer("/pods", body.as_bytes(), &context).await;
        assert_eq!((status, text.is_empty()), (StatusCode::BAD_REQUEST, false));
    }
    assert_eq!(answer("/pods", b"\xff\xfe", &context).await.0, StatusCode::BAD_REQUEST);
}

// Case: ipam M18
#[tokio::test]
async fn limits_that_are_no_object_are_left_to_the_api_server() {
    let (path, mut request) = valid_requests().remove(0);
    request["request"]["object"]["spec"]["containers"][0]["resources"]["limits"] = json!("x");
    let (status, text) = answer(path, request.to_string().as_bytes(), &context()).await;
    let review: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &review["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    assert_eq!(review["response"].get("patch"), None, "{review}");
}

/// Sends a pod with these annotations and this spec, and returns the response.
async fn review_pod(annotations: Value, spec: Value) -> Value {
    let pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": spec});
    let request = json!({"request": {"uid": "u", "kind": {"kind": "Pod"}, "namespace": "d", "object": pod}});
    let (status, text) = answer("/pods", request.to_string().as_bytes(), &context()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["response"].take()
}

#[tokio::test]
async fn a_resource_name_that_is_no_extended_resource_is_not_requested() {
    for network in ["claim", "native"] {
        let networks = json!({"k8s.v1.cni.cncf.io/networks": network});
        let containers = json!([{"name": "a"}]);
        let response = review_pod(networks.clone(), json!({"containers": containers})).await;
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{response}");
        let warning = response["warnings"][0].as_str().unwrap();
        assert!(warning.contains(&format!("d/{network}")) && warning.contains("prefix/name"), "{warning}");
        // A pod with a resource claim gets the device through the claim.
        let claims = json!([{"name": "vf", "resourceClaimTemplateName": "vf-template"}]);
        let response =
            review_pod(networks, json!({"containers": containers, "resourceClaims": claims})).await;
        assert_eq!(response, json!({"uid": "u", "allowed": true}));
    }
}

#[tokio::test]
async fn a_mistyped_annotation_key_gets_a_warning() {
    for (key, meant) in [
        ("k8s.v1.cni.cncf.io/network", "k8s.v1.cni.cncf.io/networks"),
        ("k8s.v1.cni.cncf.io/Networks", "k8s.v1.cni.cncf.io/networks"),
        ("k8s.cni.cncf.io/networks", "k8s.v1.cni.cncf.io/networks"),
        ("v1.multus-cni.io/default-networks", "v1.multus-cni.io/default-network"),
    ] {
        let response = review_pod(json!({key: "ib"}), json!({"containers": [{"name": "a"}]})).await;
        let warning = response["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains(key) && warning.contains(&format!("{meant} ")), "{key}: {response}");
        assert_eq!(response.get("patch"), None, "{response}");
    }
    for key in
        ["k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status", "example.com/networks"]
    {
        let response = review_pod(json!({key: "[]"}), json!({"containers": [{"name": "a"}]})).await;
        assert_eq!(response, json!({"uid": "u", "allowed": true}), "{key}");
    }
}

#[tokio::test]
async fn a_group_has_networks_of_the_pods_own_and_trusted_namespaces_only() {
    let group = |value: &str| json!({"cni.spidernet.io/rdma-resource-inject": value});
    let containers = json!({"containers": [{"name": "a"}]});
    let response = review_pod(group("rails"), containers.clone()).await;
    assert_eq!(response["allowed"], true, "a broken network of another tenant has no effect: {response}");
    let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(
        patch[0]["value"]["k8s.v1.cni.cncf.io/networks"], "d/own-rail,kube-system/trusted-rail",
        "{patch}"
    );
    let denied = review_pod(group("evil-group"), containers).await;
    let message = denied["status"]["message"].as_str().unwrap();
    assert_eq!(denied["allowed"], false);
    assert!(message.contains("in namespace d or in a trusted namespace"), "{message}");
}

#[tokio::test]
async fn a_pod_with_too_many_networks_is_denied_without_lookups() {
    let api = FakeApi::default();
    let controller = ControllerContext::new(api.client(), ClusterSettings::for_test());
    let context = WebhookContext::new(&controller, &NetworkCaches::default());
    let review = async |networks: String| {
        let pod = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {"containers": [{"name": "a"}]}});
        let request =
            json!({"request": {"uid": "u", "kind": {"kind": "Pod"}, "namespace": "d", "object": pod}});
        let (_, text) = answer("/pods", request.to_string().as_bytes(), &context).await;
        serde_json::from_str::<Value>(&text).unwrap()["response"].take()
    };
    let names = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
    let denied = review(names(20_000)).await;
    assert_eq!(denied["allowed"], false);
    assert!(denied["status"]["message"].as_str().unwrap().contains("maxNetworksPerPod"), "{denied}");
    assert_eq!(api.list_calls(), [""; 0]);
    assert_eq!(review(vec!["same"; 64].join(",")).await["allowed"], true);
    assert_eq!(api.list_calls().len(), 1, "equal names are looked up once");
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("metadata"),
        Just("annotations"),
        Just("spec"),
        Just("containers"),
        Just("resources"),
        Just("limits"),
        Just("requests"),
        Just("k8s.v1.cni.cncf.io/networks"),
        Just("ips"),
        Just("subnet"),
        Just("name"),
        Just("initContainers"),
        Just("ibsriov"),
        Just("cniType"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        let key = prop_oneof![4 => word.clone().prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|entries| entries.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_answered(object in any_json(), old in any_json()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let context = context();
            for (path, kind) in [
                ("/pods", "Pod"), ("/pools", "SpiderIPPool"), ("/networks", "SpiderMultusConfig"),
                ("/networks", "SriovIBNetwork"),
            ] {
                let request = json!({"request": {
                    "uid": "u", "kind": {"kind": kind}, "namespace": "d", "object": object, "oldObject": old}});
                let (status, text) = answer(path, request.to_string().as_bytes(), &context).await;
                assert!(check_answer(status, &text, &request), "{request}");
            }
        });
    }
}
