use super::render::render;
use super::*;
use serde_json::{Value, json};

fn read<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<T> {
    values.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect()
}

fn pod(name: &str, annotations: Value, ready: bool) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": name, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"spidernet.io/ib": "2"}}}]},
        "status": {"phase": if ready { "Running" } else { "Pending" },
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

fn daemon(name: &str, component: &str, ready: bool) -> Value {
    let mut pod = pod(name, json!({}), ready);
    pod["metadata"]["namespace"] = json!("ferroband-system");
    pod["metadata"]["labels"] =
        json!({"app.kubernetes.io/name": "ferroband", "app.kubernetes.io/component": component});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "ferroband:1"}]);
    pod
}

fn objects() -> ClusterObjects {
    let status = json!([
        {"name": "k8s-pod-network", "interface": "eth0", "ips": ["10.0.0.7"], "default": true, "dns": {}},
        {"name": "team/ib", "interface": "net1", "ips": ["192.168.0.1"], "dns": {}, "mtu": 2044,
         "mac": "00:00:10:49:fe:80:00:00:00:00:00:00:24:8a:07:03:00:11:22:33"},
        {"name": "team/vf", "interface": "net2", "dns": {},
         "device-info": {"type": "pci", "pci": {"pci-address": "0000:3b:00.2", "rdma-device": "mlx5_4"}}},
    ]);
    let network = |name: &str, config: Value| json!({"metadata": {"name": name, "namespace": "team"}, "spec": {"config": config.to_string()}});
    ClusterObjects {
        pods: read(&[
            pod("a", json!({"k8s.v1.cni.cncf.io/network-status": status.to_string()}), true),
            pod("b", json!({"k8s.v1.cni.cncf.io/networks": "ib, other/absent"}), false),
            pod("plain", json!({}), true),
            daemon("ferroband-node-1", "node", true),
            daemon("ferroband-cluster-1", "cluster", true),
            daemon("ferroband-cluster-2", "cluster", false),
        ]),
        nodes: read(&[json!({
            "metadata": {"name": "n1", "labels": {"ferroband.io/simulated": "true"}},
            "status": {"allocatable": {"cpu": "2", "spidernet.io/ib": "8", "jarvice.com/rdma": "1"}, "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "FerrobandDevices", "status": "False", "message": "f.json: bad"},
            ]},
        })]),
        leases: read(&[json!({
            "metadata": {"name": "ferroband-cluster", "namespace": "ferroband-system"},
            "spec": {"holderIdentity": "ferroband-cluster-1"},
        })]),
        events: read(&[json!({
            "metadata": {"name": "e", "namespace": "team"}, "involvedObject": {"kind": "Pod", "uid": "b"},
            "reason": "NoNetworkFound", "message": "network other/absent: …",
        })]),
        networks: read(&[
            network("ib", json!({"type": "ipoib", "master": "ibs5f0"})),
            network("vf", json!({"name": "vf", "plugins": [{"type": "ib-sriov", "pkey": "0x10"}]})),
        ]),
        blocks: read(&[json!({
            "metadata": {"name": "g"},
            "spec": {"space": "default", "first": "192.168.0.0", "used": 1, "free": 15, "entries": {"1": {
                "pod": "team/a", "uid": "a", "interface": "net1", "container": "c", "node": "n1"}}},
        })]),
        states: read(&[json!({
            "metadata": {"name": "n1"}, "spec": {},
            "status": {"syncStatus": "Succeeded", "interfaces": [{"pciAddress": "0000:3b:00.0", "vfs": [
                {"pciAddress": "0000:3b:00.2", "vfID": 0, "guid": "02:00:00:00:00:00:00:01"}]}]},
        })]),
        ..ClusterObjects::default()
    }
}

#[test]
fn every_interface_has_a_line_with_its_device() {
    let report = StatusReport::from_objects(&objects());
    assert_eq!(
        render(&report, &[StatusPart::Pods], false),
        "\
POD     NODE  INTERFACE  DEVICE  IP           GUID                     P_KEY   STATE
team/a  n1    net1       ibs5f0  192.168.0.1  24:8a:07:03:00:11:22:33  -       Ready
team/a  n1    net2       mlx5_4  -            02:00:00:00:00:00:00:01  0x0010  Ready
team/b  n1    -          -       -            -                        -       NoNetworkFound
team/b  n1    -          -       -            -                        -       NoNetworkFound
! team/b: network other/absent: …
"
    );
    let networks: Vec<_> = report.pods.iter().map(|row| row.network.as_str()).collect();
    assert_eq!(networks, ["team/ib", "team/vf", "team/ib", "other/absent"]);
}

#[test]
fn nodes_show_resource_usage_and_problems() {
    let report = StatusReport::from_objects(&objects());
    assert_eq!(
        render(&report, &[StatusPart::Daemons, StatusPart::Nodes, StatusPart::Addresses], false),
        "\
Daemons: node 1/1 ready, cluster 1/2 ready, leader ferroband-cluster-1

NODE  STATE  DAEMON  HARDWARE   VFS        RESOURCES (USED/ALL)
n1    Ready  ready   simulated  Succeeded  jarvice.com/rdma 0/1, spidernet.io/ib 6/8
! n1: FerrobandDevices: f.json: bad

ADDRESSES OF   SUBNET  USED  TOTAL  BLOCKS
space default  -       1     -      1
"
    );
}

#[test]
fn empty_cluster_is_reported() {
    let shown = render(&StatusReport::from_objects(&ClusterObjects::default()), &[], false);
    assert!(shown.starts_with("Ferroband is not running in this cluster\n"), "{shown}");
    assert!(shown.contains("No pod has or requests an additional network"), "{shown}");
}

#[test]
fn unschedulable_pod_shows_the_reason() {
    let mut waiting = pod("c", json!({"k8s.v1.cni.cncf.io/networks": "ib"}), false);
    waiting["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
    waiting["spec"]["nodeName"] = Value::Null;
    let objects = ClusterObjects { pods: read(&[waiting]), ..ClusterObjects::default() };
    let row = StatusReport::from_objects(&objects).pods.remove(0);
    assert_eq!(
        (row.state.as_str(), row.message.as_deref()),
        ("Unschedulable", Some("0/1 nodes are available"))
    );
}
