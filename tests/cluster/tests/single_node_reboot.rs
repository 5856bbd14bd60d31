//! A cluster of one node, whose pods cannot be evicted to another one.

use ferroband_cluster_tests::{TestObjects, eventually, kubectl, kubectl_get, node_names, start_own_lab};
use serde_json::json;

const DESIRED: &str = "sriovnetwork.openshift.io/desired-state";
const CURRENT: &str = "sriovnetwork.openshift.io/current-state";

// Case: operator C70
#[test]
fn only_node_is_rebooted_without_draining() {
    start_own_lab(&["--nodes", "1"]);
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stays"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "busybox:1"}]},
        })
        .to_string(),
    );
    let before = objects.wait_ready("stays", 90);
    let states = ["-n", "ferroband-system", "sriovnetworknodestates", &node];
    eventually("the node has its state", 60, || {
        if kubectl_get(&states)["status"]["syncStatus"] == "Succeeded" {
            Ok(())
        } else {
            Err(kubectl_get(&states).to_string())
        }
    });
    // The node daemon requests drains by this annotation. Stop the daemon, so that the test controls the annotation.
    let away = r#"{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"true"}}}}}"#;
    kubectl(&["-n", "ferroband-system", "patch", "daemonset", "ferroband-node", "-p", away])
        .stdout_or_panic();
    eventually("the daemon is stopped", 60, || {
        let label = ["-n", "ferroband-system", "pods", "-l", "app.kubernetes.io/component=node"];
        let left = kubectl_get(&label)["items"].as_array().map_or(0, Vec::len);
        if left == 0 { Ok(()) } else { Err(format!("{left} pods")) }
    });
    let annotate = |state: &str| {
        let pair = format!("{DESIRED}={state}");
        kubectl(&[
            "-n",
            "ferroband-system",
            "annotate",
            "--overwrite",
            "sriovnetworknodestates",
            &node,
            &pair,
        ])
        .stdout_or_panic();
    };
    let wait_drain_state = |desired: &str| {
        eventually(&format!("the drain is {desired}"), 60, || {
            match kubectl_get(&states)["metadata"]["annotations"][CURRENT].as_str() {
                Some(state) if state == desired => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    };
    annotate("Reboot_Required");
    wait_drain_state("DrainComplete");
    assert!(kubectl_get(&["node", &node])["spec"]["unschedulable"].is_null(), "the node was cordoned");
    let now = kubectl_get(&["pod", "stays"]);
    assert_eq!(
        (&now["metadata"]["uid"], &now["metadata"]["deletionTimestamp"], &now["status"]["phase"]),
        (&before["metadata"]["uid"], &json!(null), &json!("Running"))
    );
    annotate("Idle");
    wait_drain_state("Idle");
    objects.leave_to_lab_teardown();
}
