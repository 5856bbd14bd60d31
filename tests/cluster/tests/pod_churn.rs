//! Many pods at once while daemons are killed: all start eventually, no two share an address, nothing is left behind.
//!
//! One round here; `cargo xtask test soak` runs more.

use ferroband_cluster_tests::inspect::{block_entries, leftover_state, network_status};
use ferroband_cluster_tests::{
    TestObjects, eventually, kill_node_daemon, kubectl, kubectl_get, network_definition, node_names,
    reboot_node, soak_rounds,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PODS: usize = 30;
/// Pods on the node that is rebooted.
const REBOOTED: usize = 16;
const RANGE: &str = "192.168.50.";

#[test]
fn many_pods_start_and_stop_while_daemons_are_killed() {
    let rounds = soak_rounds();
    let mut objects = TestObjects::default();
    objects.apply(&network()).apply(&deployment(&json!({})));
    for round in 0..rounds {
        scale(PODS);
        for node in node_names() {
            kill_node_daemon(&node);
        }
        let status = kubectl(&["rollout", "status", "deployment/churn", "--timeout=180s"]);
        assert!(status.ok, "round {round}: {} {}", status.out, status.err);
        let addresses = addresses();
        assert_eq!(addresses.len(), PODS, "round {round}: {PODS} pods have {PODS} addresses: {addresses:?}");
        let entries: Vec<_> = block_entries().into_iter().filter(|(g, _)| g.starts_with(RANGE)).collect();
        assert_eq!(entries.len(), PODS, "round {round}: one entry for each pod");

        scale(0);
        kill_node_daemon(&node_names()[round % node_names().len()]);
        wait_nothing_left();
    }
}

#[test]
fn pods_starting_during_a_node_reboot_run_eventually_and_leave_nothing_behind() {
    let (mut objects, node) = (TestObjects::default(), node_names()[2].clone());
    objects.apply(&network()).apply(&deployment(&json!({"kubernetes.io/hostname": node})));
    scale(REBOOTED);
    eventually("some pods run, some do not yet", 60, || match addresses().len() {
        found if (1..REBOOTED).contains(&found) => Ok(()),
        found => Err(format!("{found} have addresses")),
    });
    reboot_node(&node);
    kubectl(&["rollout", "status", "deployment/churn", "--timeout=180s"]).stdout_or_panic();
    assert_eq!(addresses().len(), REBOOTED);
    let entries = block_entries().into_iter().filter(|(block, _)| block.starts_with(RANGE));
    assert_eq!(entries.count(), REBOOTED, "one entry per pod");
    scale(0);
    wait_nothing_left();
}

fn network() -> String {
    let config = json!({"cniVersion": "1.0.0", "type": "ipoib", "name": "churn", "master": "ib0",
        "ipam": {"type": "whereabouts", "range": format!("{RANGE}0/24")}});
    network_definition("churn", &config).to_string()
}

/// A Deployment of pods with that network, initially without replicas.
fn deployment(nodes: &Value) -> String {
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "churn"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "churn"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "churn"}},
            "template": {
                "metadata": {"labels": {"a": "churn"}, "annotations": annotations},
                "spec": {
                    "terminationGracePeriodSeconds": 0, "nodeSelector": nodes,
                    "containers": [{"name": "c", "image": "busybox:1"}],
                },
            },
        },
    })
    .to_string()
}

#[track_caller]
fn wait_nothing_left() {
    eventually("no entries and no node state left", 90, || {
        let left = block_entries().iter().filter(|(g, _)| g.starts_with(RANGE)).count();
        let state: String = node_names().iter().map(|n| leftover_state(n)).collect();
        if left == 0 && state.is_empty() { Ok(()) } else { Err(format!("{left} entries, {state}")) }
    });
}

fn scale(replicas: usize) {
    kubectl(&["scale", "deployment/churn", &format!("--replicas={replicas}")]).stdout_or_panic();
}

/// The distinct net1 addresses in the pods' network-status.
fn addresses() -> BTreeSet<String> {
    let pods = kubectl_get(&["pods", "-l", "a=churn"]);
    let mut found = BTreeSet::new();
    let has_status =
        |pod: &&Value| pod["metadata"]["annotations"].get("k8s.v1.cni.cncf.io/network-status").is_some();
    for pod in pods["items"].as_array().into_iter().flatten().filter(has_status) {
        for entry in network_status(pod) {
            if entry["interface"] == "net1" {
                found.extend(entry["ips"][0].as_str().map(str::to_string));
            }
        }
    }
    found
}
