//! Partitions on a real cluster: a pod is a member before it runs and removed afterwards, also during an outage of the
//! subnet manager, and pods cannot join partitions of other tenants.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::tenants::{
    BLUE, RED, member_guid, pod_warnings, tenant_fixture, tenant_network, tenant_pod, wait_not_member,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, ferroband, holds_for, kubectl, kubectl_get, node_names,
};
use serde_json::{Value, json};

fn address(pod: &str) -> String {
    first_ipv4(&pod_interface(pod, "net1")).0
}

#[track_caller]
fn assert_reaches(from: &str, to: &str) {
    exec_in_pod(from, &format!("ping -c 1 -w 15 -I net1 {}", address(to))).stdout_or_panic();
}

#[track_caller]
fn assert_not_reachable(from: &str, to: &str) {
    let tried = exec_in_pod(from, &format!("ping -c 2 -w 2 -I net1 {}", address(to)));
    assert!(!tried.ok, "{from} reaches {to}: {}", tried.out);
}

/// Asserts the first P_Key table entry at the pod's start.
#[track_caller]
fn assert_pkey_at_start(pod: &str, key: u16) {
    let log = kubectl(&["logs", pod]).stdout_or_panic();
    assert_eq!(log.trim(), format!("{:#06x}", key | 0x8000), "first P_Key table entry when {pod} started");
}

// Case: partitions 63
#[test]
fn pod_is_a_member_before_it_runs_and_removed_afterwards_despite_a_ufm_outage() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let fabric = tenant_fixture(&mut objects);
    for (name, node, networks) in
        [("red-1", 0, "red"), ("red-2", 1, "red-too"), ("blue-1", 0, "blue"), ("blue-2", 1, "blue")]
    {
        objects.apply(&tenant_pod("default", name, &nodes[node], networks));
    }
    for (name, key) in [("red-1", RED), ("red-2", RED), ("blue-1", BLUE), ("blue-2", BLUE)] {
        objects.wait_ready(name, 120);
        assert_pkey_at_start(name, key);
        assert!(fabric.members(key).contains(&member_guid(name)), "{name} in {key:#06x}");
    }
    let check_reachability = || {
        assert_reaches("red-1", "red-2");
        assert_reaches("blue-2", "blue-1");
        assert_not_reachable("red-1", "blue-1");
        assert_not_reachable("blue-2", "red-2");
    };
    check_reachability();

    // Twenty seconds without UFM: running pods are not affected, new pods wait, deleted pods leave at once.
    let leaver = member_guid("red-2");
    fabric.ufm.go_down();
    let away = std::time::Instant::now();
    check_reachability();
    objects.apply(&tenant_pod("default", "late", &nodes[1], "red"));
    kubectl(&["delete", "pod", "red-2", "--wait", "--timeout=60s"]).stdout_or_panic();
    let left = 20_u64.saturating_sub(away.elapsed().as_secs());
    holds_for("the new pod does not start outside its partition", left, || {
        match kubectl_get(&["pod", "late"])["status"]["phase"].as_str() {
            Some("Pending") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    fabric.wait_condition("Reachable", "False", 30);
    assert_reaches("blue-1", "blue-2");
    fabric.ufm.come_up(true);
    objects.wait_ready("late", 120);
    assert_pkey_at_start("late", RED);
    wait_not_member(&fabric, &nodes[1], &leaver, RED);
    fabric.wait_condition("Reachable", "True", 60);
    assert_reaches("late", "red-1");
    assert_not_reachable("late", "blue-2");
    // One slow sandbox, not several failed ones.
    let failed = pod_warnings("default", "late");
    assert!(!failed.contains("sandbox"), "it waited in one sandbox: {failed}");

    // UFM restarts without its state and is programmed again.
    let red_guids = [member_guid("red-1"), member_guid("late")];
    fabric.ufm.go_down();
    fabric.ufm.come_up(false);
    eventually("UFM has all members again", 60, || {
        let (red, blue) = (fabric.members(RED), fabric.members(BLUE));
        match red_guids.iter().all(|guid| red.contains(guid)) && blue.len() == 2 {
            true => Ok(()),
            false => Err(format!("{red:?} {blue:?}")),
        }
    });
    assert_reaches("late", "red-1");
    ferroband(&["partition", "diff"]).stdout_or_panic();

    let last = [member_guid("red-1"), member_guid("blue-1")];
    kubectl(&["delete", "pod", "red-1", "blue-1", "--wait", "--timeout=60s"]).stdout_or_panic();
    wait_not_member(&fabric, &nodes[0], &last[0], RED);
    wait_not_member(&fabric, &nodes[0], &last[1], BLUE);
}

#[test]
fn forged_annotations_grant_no_membership() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply("{apiVersion: v1, kind: Namespace, metadata: {name: mallory}}");
    objects.apply(
        &json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "Partition", "metadata": {"name": "red"},
            // Without `mode`, a Partition is enforced.
            "spec": {"pkey": "0x3e8", "namespaces": ["default"]},
        })
        .to_string(),
    );
    let fabric = tenant_fixture(&mut objects);
    objects.apply(&tenant_network("mallory", "plain", Value::Null));
    objects.apply(&tenant_network("mallory", "red", json!("0x3e8")));
    objects.apply(&tenant_pod("default", "victim", &nodes[0], "red"));
    objects.wait_ready("victim", 120);
    let victim = member_guid("victim");

    let mark = json!({"mellanox.infiniband.app": "configured", "pkey": "0x3e8"});
    let with = |key: &str, value: &str| {
        let mut args = mark.clone();
        args[key] = value.into();
        args
    };
    for (name, networks, word) in [
        // Its own network with the P_Key of another namespace's partition.
        ("foreign-key", json!([{"name": "red", "cni-args": mark}]), "may not use partition"),
        ("foreign-network", json!([{"name": "red", "namespace": "default"}]), "may not use partition"),
        // Another pod's GUID.
        ("stolen-guid", json!([{"name": "plain", "cni-args": with("guid", &victim)}]), "GUID"),
        // The GUID of a storage server, which is outside the pool.
        (
            "server-guid",
            json!([{"name": "plain", "cni-args": with("guid", "e4:1d:2d:03:00:12:34:57")}]),
            "GUID",
        ),
    ] {
        objects.apply(&tenant_pod("mallory", name, &nodes[1], &networks.to_string()));
        eventually(&format!("{name} is rejected"), 60, || match pod_warnings("mallory", name) {
            messages if messages.contains(word) => Ok(()),
            messages => Err(messages),
        });
        let phase = kubectl_get(&["pod", "-n", "mallory", name])["status"]["phase"].clone();
        assert_eq!(phase, "Pending", "{name}");
        kubectl(&["delete", "pod", "-n", "mallory", name, "--wait", "--timeout=60s"]).stdout_or_panic();
    }
    // Marked as configured with a P_Key that its network does not have: the pod runs in no partition.
    objects.apply(&tenant_pod(
        "mallory",
        "marked",
        &nodes[1],
        &json!([{"name": "plain", "cni-args": mark}]).to_string(),
    ));
    eventually("it runs", 120, || match kubectl_get(&["pod", "-n", "mallory", "marked"])["status"]["phase"]
        .as_str()
    {
        Some("Running") => Ok(()),
        other => Err(format!("{other:?} {}", pod_warnings("mallory", "marked"))),
    });
    let log = kubectl(&["logs", "-n", "mallory", "marked"]).stdout_or_panic();
    assert_eq!(log.trim(), "0x7fff", "limited member of the default partition");
    assert_eq!(fabric.members(RED), [victim], "no other member");
    let ever: Vec<_> =
        fabric.ufm.events().into_iter().filter(|event| event.member && event.key == RED).collect();
    assert_eq!(ever.len(), 1, "{ever:?}");
}
