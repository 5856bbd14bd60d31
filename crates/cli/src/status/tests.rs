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
            "source": {"component": "ferroband-node"}, "reason": "NoNetworkFound", "message": "network other/absent: …",
        })]),
        networks: read(&[
            network("ib", json!({"type": "ipoib", "master": "ibs5f0"})),
            network("vf", json!({"name": "vf", "plugins": [{"type": "ib-sriov", "pkey": "0x10"}]})),
        ]),
        blocks: read(&[json!({
            "metadata": {"name": "g"},
            "spec": {"space": "default", "first": "192.168.0.0", "entries": {"1": {
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

fn sandbox_event(pod: &str, reason: &str, from: &str, time: &str, message: &str) -> Value {
    json!({"metadata": {"name": "e", "namespace": "team"}, "involvedObject": {"kind": "Pod", "uid": pod},
        "source": {"component": from}, "reason": reason, "lastTimestamp": time, "message": message})
}

fn pod_row(pod: Value, events: &[Value]) -> Option<report::InterfaceRow> {
    let objects = ClusterObjects { pods: read(&[pod]), events: read(events), ..ClusterObjects::default() };
    StatusReport::from_objects(&objects).pods.pop()
}

const FAILED_SANDBOX: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for \
     sandbox \"7a\": plugin type=\"ferroband\" failed (add): network team/ib: the RDMA mode is shared; \
     remove rdmaIsolation [InvalidConfig]";

#[test]
fn failed_sandbox_shows_the_code_and_the_error_in_the_kubelets_event() {
    let waiting = || pod("b", json!({"k8s.v1.cni.cncf.io/networks": "ib"}), false);
    let kubelet =
        |time: &str, text: &str| sandbox_event("b", "FailedCreatePodSandBox", "kubelet", time, text);
    let events = [
        kubelet("2026-01-01T00:00:09Z", FAILED_SANDBOX),
        sandbox_event("b", "NoNetworkFound", "ferroband-node", "2026-01-01T00:00:01Z", "older"),
        sandbox_event("b", "BackOff", "kubelet", "2026-01-01T00:00:10Z", "another subject"),
        sandbox_event("other", "NoParent", "ferroband-node", "2026-01-01T00:00:10Z", "another pod"),
    ];
    let row = pod_row(waiting(), &events).unwrap();
    let error = "network team/ib: the RDMA mode is shared; remove rdmaIsolation [InvalidConfig]";
    assert_eq!((row.state.as_str(), row.message.as_deref()), ("InvalidConfig", Some(error)));

    // The error of another plugin has no code, but the pod waits because of it.
    let row = pod_row(waiting(), &[kubelet("2026-01-01T00:00:09Z", "calico: not ready")]).unwrap();
    assert_eq!(
        (row.state.as_str(), row.message.as_deref()),
        ("FailedCreatePodSandBox", Some("calico: not ready"))
    );
}

#[test]
fn newest_event_counts_whichever_field_has_its_time() {
    let mut newer = sandbox_event("b", "DaemonAway", "ferroband-node", "", "newer [DaemonAway]");
    newer.as_object_mut().unwrap().remove("lastTimestamp");
    newer["eventTime"] = json!("2026-01-01T00:00:05.000000Z");
    newer["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"});
    let older =
        sandbox_event("b", "FailedCreatePodSandBox", "kubelet", "2026-01-01T00:00:30Z", FAILED_SANDBOX);
    let waiting = pod("b", json!({"k8s.v1.cni.cncf.io/networks": "ib"}), false);
    assert_eq!(pod_row(waiting, &[newer, older]).unwrap().state, "DaemonAway");
}

#[test]
fn pod_without_networks_is_shown_while_ferroband_keeps_it_from_starting() {
    let time = "2026-01-01T00:00:09Z";
    let failed = |text: &str| [sandbox_event("p", "FailedCreatePodSandBox", "kubelet", time, text)];
    let row = pod_row(pod("p", json!({}), false), &failed(FAILED_SANDBOX)).unwrap();
    assert_eq!((row.state.as_str(), row.network.as_str()), ("InvalidConfig", ""));
    assert!(pod_row(pod("p", json!({}), false), &failed("calico: not ready")).is_none(), "not our subject");
    let mut started = pod("p", json!({}), false);
    started["status"]["podIP"] = json!("10.0.0.9");
    assert!(pod_row(started, &failed(FAILED_SANDBOX)).is_none(), "a later sandbox succeeded");
}

#[test]
fn resource_that_no_node_offers_is_named_with_those_that_exist() {
    let mut waiting = pod("c", json!({"k8s.v1.cni.cncf.io/networks": "ib"}), false);
    waiting["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient spidernet.io/ibb"}]);
    waiting["spec"]["containers"][0]["resources"]["limits"] = json!({"spidernet.io/ibb": "1", "cpu": "1"});
    let node = json!({"metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "2", "spidernet.io/ib": "8", "jarvice.com/rdma": "1"}}});
    let row_of = |pod: &Value, nodes: &[Value]| {
        let objects = ClusterObjects {
            pods: read(std::slice::from_ref(pod)),
            nodes: read(nodes),
            ..ClusterObjects::default()
        };
        StatusReport::from_objects(&objects).pods.pop()
    };
    let nodes = [node];
    let row = row_of(&waiting, &nodes).unwrap();
    assert_eq!(row.state, "Unschedulable");
    let message = "no node offers spidernet.io/ibb; nodes offer jarvice.com/rdma, spidernet.io/ib";
    assert_eq!(row.message.as_deref(), Some(message));
    assert!(row.remedy.unwrap().contains("k8s.v1.cni.cncf.io/resourceName"));

    // A misspelt resource is reported without a network, too. A resource of another vendor is not our subject.
    waiting["metadata"]["annotations"] = json!({});
    assert!(row_of(&waiting, &nodes).is_some());
    waiting["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    assert!(row_of(&waiting, &nodes).is_none());
    // The resource exists, so the pod waits for a free device.
    waiting["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/networks": "ib"});
    waiting["spec"]["containers"][0]["resources"]["limits"] = json!({"spidernet.io/ib": "1"});
    assert!(row_of(&waiting, &nodes).unwrap().message.unwrap().starts_with("0/1 nodes are available"));
}
