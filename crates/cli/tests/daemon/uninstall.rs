//! `ferroband uninstall --all-nodes` against a fake API server: what it removes, and what it keeps.

use crate::api::FakeApiServer;
use serde_json::{Value, json};
use std::{fs, process::Command};

const OBJECTS: &str = "/apis/ferroband.io/v1alpha1";

fn uninstall(api: &FakeApiServer) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("kubeconfig");
    fs::write(&config, api.kubeconfig()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ferroband"))
        .args(["uninstall", "--all-nodes", "--namespace=ferroband-system", "--patience=2"])
        .env("KUBECONFIG", config)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn address_block(name: &str, uid: &str) -> Value {
    let entry = json!({"pod": "default/a", "uid": uid, "interface": "net1", "container": "c", "node": "n1"});
    json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock", "metadata": {"name": name, "uid": name},
        "spec": {"space": "default", "first": "192.168.0.0", "entries": {"1": entry}}})
}

fn cluster() -> FakeApiServer {
    let api = FakeApiServer::reserve().start();
    api.put("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"ferroband.io/simulated": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "FerrobandDevices", "status": "True"}]}}));
    api.put("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain"}}));
    api.put(
        "/api/v1/pods",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "running"}}),
    );
    api.put(&format!("{OBJECTS}/addressblocks"), address_block("in-use", "running"));
    api.put(&format!("{OBJECTS}/addressblocks"), address_block("unused", "gone"));
    let fabric = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "Fabric", "metadata": {"name": "default"},
        "spec": {}});
    api.put(&format!("{OBJECTS}/fabrics"), fabric);
    api
}

#[test]
fn uninstall_removes_labels_conditions_and_unused_objects_and_names_the_others() {
    let api = cluster();
    let output = uninstall(&api);
    let calls = api.calls();
    for call in ["PATCH /api/v1/nodes/n1", "PATCH /api/v1/nodes/n1/status"] {
        assert!(calls.iter().any(|made| made == call), "{call}: {calls:?}");
    }
    assert!(!calls.iter().any(|made| made.contains("nodes/plain")), "{calls:?}");
    let exists = |kind: &str, name: &str| api.get(&format!("{OBJECTS}/{kind}/{name}")).is_some();
    assert!(!exists("addressblocks", "unused") && !exists("fabrics", "default"), "{output}");
    assert!(exists("addressblocks", "in-use"), "{output}");
    for line in [
        "removed: label and conditions of 1 nodes",
        "removed: 1 AddressBlock objects",
        "removed: 1 Fabric objects",
        "stays: AddressBlock in-use: pod default/a has an address of it",
        "stays: CRDs",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
}

#[test]
fn uninstall_keeps_all_objects_while_a_node_is_not_done() {
    let api = cluster();
    let pod = json!({"containers": [{"name": "node"}]});
    let daemonset = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ferroband-node"},
        "spec": {"selector": {}, "template": {"spec": pod}},
        "status": {"desiredNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 1,
            "currentNumberScheduled": 2, "numberMisscheduled": 0}});
    api.put("/apis/apps/v1/namespaces/ferroband-system/daemonsets", daemonset);
    let output = uninstall(&api);
    assert!(
        output.contains("uninstalled on 1 of 2 nodes") && output.contains("stays: all objects"),
        "{output}"
    );
    let calls = api.calls();
    assert!(
        !calls.iter().any(|made| made.starts_with("DELETE") || made.contains("/deployments/")),
        "{calls:?}"
    );
}

#[test]
fn uninstall_keeps_all_objects_while_the_cluster_daemon_runs() {
    let api = cluster();
    let namespace = "/namespaces/ferroband-system";
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ferroband-cluster"}});
    api.put(&format!("/apis/apps/v1{namespace}/deployments"), deployment);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "leader", "uid": "u"}});
    api.put(&format!("/api/v1{namespace}/pods"), pod);
    let output = uninstall(&api);
    assert!(output.contains("stays: all objects of Ferroband: the cluster daemon's pod leader"), "{output}");
    let calls = api.calls();
    assert!(
        calls.iter().any(|made| made.starts_with("PATCH") && made.ends_with("/ferroband-cluster")),
        "{calls:?}"
    );
    assert!(!calls.iter().any(|made| made.starts_with("DELETE") || made.contains("nodes/n1")), "{calls:?}");
}
