//! Input of the CNI plugin and of the daemon's socket.

use super::to_bytes;
use serde_json::{Value, json};

/// Configurations of every Ferroband plugin.
const CONFIGURATIONS: [&str; 6] = [
    r#"{"cniVersion":"1.1.0","name":"n","type":"ipoib","master":"ib0","mtu":2044,"ipam":{"type":"whereabouts","range":"192.168.0.0/24"},"dns":{"nameservers":["10.0.0.1"]}}"#,
    r#"{"cniVersion":"0.3.1","name":"ib","type":"ib-sriov","deviceID":"0000:86:00.2","link_state":"enable","rdmaIsolation":true,"ibKubernetesEnabled":true,"runtimeConfig":{"infinibandGUID":"01:23:45:67:89:ab:cd:ef"},"args":{"cni":{"mellanox.infiniband.app":"configured","guid":"02:00:00:00:00:00:00:02"}}}"#,
    r#"{"cniVersion":"1.0.0","name":"c","type":"rdma","deviceID":"mlx5_core.sf.6","prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"00:11:22:33:44:55","sandbox":"/x"}],"ips":[{"interface":0,"address":"10.0.0.2/24","gateway":"10.0.0.1"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","mtu":1400,"priority":5,"table":100,"scope":0}]}}"#,
    r#"{"cniVersion":"1.1.0","name":"c","type":"coordinator","mode":"auto","overlayPodCIDR":["10.244.0.0/16"],"serviceCIDR":["10.96.0.0/12","fd00::/108"],"hijackCIDR":["169.254.0.0/16"],"policyRoutes":[{"dst":"10.1.0.0/16","gw":"10.9.0.1"}],"podRPFilter":0,"hostRuleTable":500,"vethMTU":1500}"#,
    r#"{"cniVersion":"0.2.0","name":"old","type":"ipoib","master":"ib0","prevResult":{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24","gateway":"10.0.0.1","routes":[{"dst":"0.0.0.0/0"}]}}}"#,
    r#"{"cniVersion":"1.1.0","name":"k8s","type":"ferroband","capabilities":{"portMappings":true},"delegates":[{"cniVersion":"1.0.0","name":"k8s","plugins":[{"type":"bridge"}]}],"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#,
];

/// Annotations in both spellings.
const ANNOTATIONS: [&str; 5] = [
    "a, ns2/b@ib1 ,c",
    "jarvice-ipoib",
    r#"[{"name":"a","namespace":"n","interface":"ib0","ips":["10.0.0.1/24","fd00::1"],"mac":"02:00:00:00:00:01","infiniband-guid":"c2:11:22:33:44:55:66:77"}]"#,
    r#"[{"name":"a","default-route":["10.0.0.1"],"portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}],"bandwidth":{"ingressRate":1},"cni-args":{"k":[1,{"x":null}]},"deviceID":"d"}]"#,
    r#"[{"name":"a","ipam-claim-reference":"c"},{"name":"b","interfaceRequest":"net7"}]"#,
];

pub fn configurations() -> Vec<Vec<u8>> {
    to_bytes(&CONFIGURATIONS)
}

pub fn annotations() -> Vec<Vec<u8>> {
    to_bytes(&ANNOTATIONS)
}

/// Annotations of a pod and configurations of the network, each pair separated by a NUL.
pub fn definitions() -> Vec<Vec<u8>> {
    let chain = json!({"cniVersion": "1.0.0", "name": "chain", "plugins": [
        {"type": "ib-sriov", "capabilities": {"infinibandGUID": true, "deviceID": true}, "pkey": "0x3e8",
            "ipam": {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.0/30"]}},
        {"type": "tuning"}, {"type": "rdma"}, {"type": "coordinator", "mode": "auto"}]})
    .to_string();
    let named = json!({"type": "ib-sriov", "deviceID": "0000:3b:00.2", "PKey": 1000}).to_string();
    let configurations = CONFIGURATIONS.into_iter().chain([chain.as_str(), named.as_str()]);
    let requests = ["a", "a,b@ib1", ANNOTATIONS[2], ANNOTATIONS[3]];
    let pairs = configurations.flat_map(|config| requests.map(|request| format!("{request}\0{config}")));
    pairs.map(String::into_bytes).collect()
}

/// Requests of the plugin and replies of the daemon, without the length in front.
pub fn socket_messages() -> Vec<Vec<u8>> {
    let call = json!({"container": "c1", "ifname": "eth0", "config": {"name": "k8s"}, "ips": ["10.0.0.1"],
        "pod": {"namespace": "default", "name": "p", "uid": "u"}});
    let steps = json!([{"config": {"type": "ipoib"}, "by": {"kind": "foreign"}}]);
    let plan = json!({"pod": call["pod"], "container": "c1", "membership": true, "partitions": [],
        "attachments": [{"network": "n", "name": "n", "cni_version": "1.0.0", "ifname": "net1", "steps": steps}]});
    let messages = [
        json!({"add": call}),
        json!({"assign": call}),
        json!({"members": [{"attachment": 1, "ifname": "net1", "device": "0000:3b:00.2", "guid": "02:00:00:00:00:00:00:01"}]}),
        json!({"unbroken": {"rebind": {"function": "0000:3b:00.2"}}}),
        json!({"unbroken": {"lend": {"device": "mlx5_4"}}}),
        json!({"attached": [{"attachment": 0, "result": {"ips": [{"address": "10.0.0.1/24"}]}}]}),
        json!({"release": {"container": "c1", "ifname": null}}),
        json!("addresses"),
        json!("status"),
        json!({"plan": plan}),
        json!({"addresses": [{"attachment": 1, "ips": [{"address": "10.0.0.1/24", "gateway": "10.0.0.254"}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.254"}]}]}),
        json!({"fault": {"code": "NoDevice", "what": "w", "cause": "c", "remedy": "r"}}),
    ];
    messages.iter().map(|message: &Value| message.to_string().into_bytes()).collect()
}

pub fn journals() -> Vec<Vec<u8>> {
    let step = |by: Value| json!({"config": {"type": "ipoib", "master": "ib0"}, "by": by});
    let attachment = json!({"network": "d/ib", "name": "ib", "cni_version": "1.0.0", "ifname": "net1", "default": false,
        "steps": [step(json!({"kind": "foreign"})), step(json!({"kind": "ipoib", "child": {"parent": "ib0"}, "addressed": true}))]});
    let records = json!([{"state": "done", "ipam": "intended"},
        {"state": "intended", "trace": {"temporary": "fbx", "kind": "ipoib", "addresses": ["00:01"]},
            "rdma": {"device": "mlx5_4", "on": "0000:3b:00.2"}}]);
    let journal = json!({
        "schema": 1, "role": "ferroband", "boot": "b", "container": "c1", "ifname": "eth0", "network": "cbr0",
        "netns": "/run/netns/t", "netns_id": {"dev": 4, "inode": 5}, "args": "IgnoreUnknown=1",
        "pod": {"namespace": "d", "name": "p"}, "daemon": true, "attached": true,
        "entries": [{"attachment": attachment, "steps": records, "result": {"cniVersion": "1.1.0", "ips": []}}],
        "assigned": [{"attachment": 1, "ips": [{"address": "10.0.0.1/24"}], "routes": []}],
    });
    let mut newer = journal.clone();
    newer["schema"] = json!(7);
    [journal, newer].iter().map(|journal| journal.to_string().into_bytes()).collect()
}
