//! Many pods at once while daemons die: each starts in the end, no two share an address, nothing stays behind.
//!
//! One round here; `cargo xtask test soak` does more.

use ferroband_cluster_tests::inspect::{block_entries, leftover_state, network_status};
use ferroband_cluster_tests::{
    TestObjects, eventually, kill_node_daemon, kubectl, kubectl_get, network_definition, node_names, run_lab,
    soak_rounds,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PODS: usize = 30;
/// On one node.
const REBOOTED: usize = 16;
const RANGE: &str = "192.168.50.";

#[test]
fn many_pods_start_and_go_while_daemons_are_killed() {
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
        nothing_is_left();
    }
}

#[test]
fn pods_that_start_while_their_node_reboots_run_in_the_end_and_leave_nothing() {
    let (mut objects, node) = (TestObjects::default(), node_names()[2].clone());
    objects.apply(&network()).apply(&deployment(&json!({"kubernetes.io/hostname": node})));
    scale(REBOOTED);
    eventually("some run and some do not", 60, || match addresses().len() {
        found if (1..REBOOTED).contains(&found) => Ok(()),
        found => Err(format!("{found} have addresses")),
    });
    run_lab(&["reboot", &node]).stdout_or_panic();
    kubectl(&["rollout", "status", "deployment/churn", "--timeout=180s"]).stdout_or_panic();
    assert_eq!(addresses().len(), REBOOTED);
    let entries = block_entries().into_iter().filter(|(granule, _)| granule.starts_with(RANGE));
    assert_eq!(entries.count(), REBOOTED, "one entry for each pod");
    scale(0);
    nothing_is_left();
}

fn network() -> String {
    let config = json!({"cniVersion": "1.0.0", "type": "ipoib", "name": "churn", "master": "ib0",
        "ipam": {"type": "whereabouts", "range": format!("{RANGE}0/24")}});
    network_definition("churn", &config).to_string()
}

/// Pods with that network, none at first.
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
fn nothing_is_left() {
    eventually("nothing is left", 90, || {
        let left = block_entries().iter().filter(|(g, _)| g.starts_with(RANGE)).count();
        let kept: String = node_names().iter().map(|n| leftover_state(n)).collect();
        if left == 0 && kept.is_empty() { Ok(()) } else { Err(format!("{left} entries, {kept}")) }
    });
}

fn scale(replicas: usize) {
    kubectl(&["scale", "deployment/churn", &format!("--replicas={replicas}")]).stdout_or_panic();
}

/// The distinct addresses on net1 that the pods' network-status names.
fn addresses() -> BTreeSet<String> {
    let pods = kubectl_get(&["pods", "-l", "a=churn"]);
    let mut found = BTreeSet::new();
    let told =
        |pod: &&Value| pod["metadata"]["annotations"].get("k8s.v1.cni.cncf.io/network-status").is_some();
    for pod in pods["items"].as_array().into_iter().flatten().filter(told) {
        for entry in network_status(pod) {
            if entry["interface"] == "net1" {
                found.extend(entry["ips"][0].as_str().map(str::to_string));
            }
        }
    }
    found
}
