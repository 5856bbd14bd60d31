//! The leader is killed repeatedly while policies change: every change takes effect, and none is written twice.
//!
//! Five kills here; `cargo xtask test soak` does twenty.

use ferroband_cluster_tests::hardware::wait_no_vfs;
use ferroband_cluster_tests::inspect::{audit_events, audit_log_length};
use ferroband_cluster_tests::leader::kill_leader;
use ferroband_cluster_tests::{TestObjects, eventually, kubectl, kubectl_get, node_names, soak_rounds};
use serde_json::{Value, json};

const STATES: &str = "sriovnetworknodestates";

fn state(node: &str) -> Value {
    kubectl_get(&["-n", "ferroband-system", STATES, node])
}

/// Resource names in the adapter's spec of a node state.
fn resources(node: &str) -> Vec<String> {
    let state = state(node);
    let groups = state["spec"]["interfaces"][0]["vfGroups"].as_array().cloned().unwrap_or_default();
    groups.iter().filter_map(|group| group["resourceName"].as_str().map(str::to_string)).collect()
}

#[test]
fn many_leader_kills_lose_no_change_and_repeat_none() {
    let rounds = soak_rounds();
    let kills = if rounds > 1 { 20 } else { 5 };
    let nodes = node_names();
    let mut objects = TestObjects::default();
    let policy = |resource: &str| {
        json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": "churned", "namespace": "kube-system"},
            "spec": {
                "resourceName": resource, "nodeSelector": {"kubernetes.io/os": "linux"}, "numVfs": 2,
                "nicSelector": {"pfNames": ["ibs5f0"]}, "isRdma": true,
            },
        })
        .to_string()
    };
    objects.apply(&policy("r0"));
    let wait_rendered = |resource: &str| {
        for node in &nodes {
            eventually(&format!("{resource} on {node}"), 90, || match resources(node) {
                now if now == [resource] => Ok(()),
                now => Err(format!("{now:?}")),
            });
        }
    };
    wait_rendered("r0");
    let generations = || {
        nodes
            .iter()
            .map(|node| state(node)["metadata"]["generation"].as_i64().unwrap_or_default())
            .sum::<i64>()
    };
    let (before, mark) = (generations(), audit_log_length());
    for round in 1..=kills {
        // The change is made with a leader, without one, and while a new one starts.
        let resource = format!("r{round}");
        let patch = json!({"spec": {"resourceName": resource}}).to_string();
        let change = || {
            kubectl(&[
                "-n",
                "kube-system",
                "patch",
                "sriovnetworknodepolicies",
                "churned",
                "--type=merge",
                "-p",
                &patch,
            ])
            .stdout_or_panic();
        };
        if round % 2 == 0 {
            change();
        }
        kill_leader();
        change();
        wait_rendered(&resource);
    }
    let writes = audit_events(mark).into_iter().filter(|entry| {
        let about = &entry["objectRef"];
        about["resource"] == STATES
            && about["subresource"].is_null()
            && entry["verb"] == "patch"
            && entry["stage"] == "ResponseComplete"
            && entry["user"]["username"].as_str().is_some_and(|user| user.ends_with(":ferroband-cluster"))
    });
    let (writes, changes) = (i64::try_from(writes.count()).expect("few"), generations() - before);
    let expected = i64::try_from(kills * nodes.len()).expect("few");
    println!("{kills} leaders killed, {changes} changes, {writes} writes");
    assert_eq!(changes, expected, "each node state changed once for each change of the policy");
    assert!(
        writes >= changes && writes <= changes + i64::try_from(kills).expect("few"),
        "{writes} writes for {changes} changes"
    );
    drop(objects);
    nodes.iter().for_each(|node| wait_no_vfs(node));
}
