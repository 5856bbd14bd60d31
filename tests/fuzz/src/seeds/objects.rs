//! Objects of tenants, and the reviews in which the API server sends them to the webhook.

use serde_json::{Value, json};

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "annotations": {
            "k8s.v1.cni.cncf.io/networks": r#"[{"name":"ib","cni-args":{"guid":"x"},"ips":["10.0.0.1"]}]"#,
            "v1.multus-cni.io/default-network": "ib",
            "k8s.v1.cni.cncf.io/network": "ib",
            "cni.spidernet.io/rdma-resource-inject": "rails",
        }},
        "spec": {
            "hostNetwork": false,
            "resourceClaims": [{"name": "c"}],
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "b", "resources": {"limits": {"x.y/z": "1"}}}],
        },
    })
}

fn pool() -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
        "spec": {"subnet": "172.91.0.0/16", "ips": ["172.91.0.100-172.91.0.120"], "excludeIPs": ["172.91.0.110"],
            "gateway": "172.91.0.1", "ipVersion": 4, "routes": [{"dst": "10.0.0.0/8", "gw": "172.91.0.1"}],
            "podAffinity": {"matchLabels": {"a": "b"}}, "nodeName": ["n"], "multusName": ["d/ib"]},
    })
}

fn spider_config(spec: Value) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": "x", "namespace": "d", "labels": {"a": "b"}, "annotations": {
            "cni.spidernet.io/rdma-resource-inject": "rails", "multus.spidernet.io/cni-version": "1.0.0"}},
        "spec": spec,
    })
}

fn networks() -> Vec<(&'static str, Value)> {
    let ib_sriov = spider_config(json!({
        "cniType": "ib-sriov", "enableCoordinator": true, "chainCNIJsonData": [r#"{"type":"tuning"}"#],
        "coordinator": {"mode": "auto", "podRPFilter": 0, "podMACPrefix": "0a:1b", "hijackCIDR": ["10.0.0.0/8"]},
        "ibsriov": {"resourceName": "a.b/c", "pkey": "0x3e8", "mtu": 2048, "ippools": {"ipv4": ["p"]}},
    }));
    let macvlan = spider_config(json!({
        "cniType": "macvlan", "macvlan": {"master": ["eth0"], "vlanID": 5, "rdmaResourceName": "a.b/c",
            "ippools": {"ipv4": ["p"], "ipv6": ["q"]}},
    }));
    let custom =
        spider_config(json!({"cniType": "custom", "customCNI": r#"{"type":"ipoib","master":"ib0"}"#}));
    let ib_network = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
        "metadata": {"name": "n", "namespace": "d"},
        "spec": {"resourceName": "r", "networkNamespace": "d", "pkey": "0x5", "ipam": r#"{"type":"whereabouts"}"#,
            "metaPlugins": r#"{"type":"rdma"},{"type":"tuning"}"#, "capabilities": r#"{"infinibandGUID": true}"#,
            "linkState": "auto"},
    });
    vec![
        ("SpiderMultusConfig", ib_sriov),
        ("SpiderMultusConfig", macvlan),
        ("SpiderMultusConfig", custom),
        ("SriovIBNetwork", ib_network),
    ]
}

pub fn network_objects() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = networks().into_iter().map(|(_, object)| object.to_string().into_bytes()).collect();
    // Deeper than a parser should follow.
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    all.push(spider_config(json!({"cniType": "custom", "customCNI": deep})).to_string().into_bytes());
    all
}

pub fn admission_reviews() -> Vec<Vec<u8>> {
    let objects = networks().into_iter().chain([("Pod", pod()), ("SpiderIPPool", pool())]);
    let review = |(kind, object): (&str, Value)| {
        let request = json!({"uid": "u", "kind": {"kind": kind}, "namespace": "d", "object": object, "oldObject": null});
        json!({"request": request}).to_string().into_bytes()
    };
    objects.map(review).collect()
}
