//! Partitions on a real cluster: a pod is in its P_Key before it runs and out of it afterwards, whatever the subnet manager
//! does meanwhile, and nobody gets into another's.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::tenants::{
    BLUE, RED, member_guid, pod_warnings, tenant_fixture, tenant_network, tenant_pod, wait_not_member,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, holds_for, kubectl, kubectl_get, node_names, run_lab,
};
use serde_json::{Value, json};

fn address(pod: &str) -> String {
    first_ipv4(&pod_interface(pod, "net1")).0
}

#[track_caller]
fn reaches(from: &str, to: &str) {
    exec_in_pod(from, &format!("ping -c 1 -w 15 -I net1 {}", address(to))).stdout_or_panic();
}

#[track_caller]
fn does_not_reach(from: &str, to: &str) {
    let tried = exec_in_pod(from, &format!("ping -c 2 -w 2 -I net1 {}", address(to)));
    assert!(!tried.ok, "{from} reaches {to}: {}", tried.out);
}

/// What the pod saw in its table when it began.
#[track_caller]
fn began_with(pod: &str, key: u16) {
    let said = kubectl(&["logs", pod]).stdout_or_panic();
    assert_eq!(said.trim(), format!("{:#06x}", key | 0x8000), "the first slot when {pod} began to run");
}

#[test]
fn a_pod_is_in_its_partition_before_it_runs_and_out_of_it_afterwards_before_during_and_after_an_outage() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let fabric = tenant_fixture(&mut objects);
    for (name, node, networks) in
        [("red-1", 0, "red"), ("red-2", 1, "red-too"), ("blue-1", 0, "blue"), ("blue-2", 1, "blue")]
    {
        objects.apply(&tenant_pod("default", name, &nodes[node], networks));
    }
    for (name, key) in [("red-1", RED), ("red-2", RED), ("blue-1", BLUE), ("blue-2", BLUE)] {
        objects.wait_ready(name, 120);
        began_with(name, key);
        assert!(fabric.members(key).contains(&member_guid(name)), "{name} in {key:#06x}");
    }
    let before_outage = || {
        reaches("red-1", "red-2");
        reaches("blue-2", "blue-1");
        does_not_reach("red-1", "blue-1");
        does_not_reach("blue-2", "red-2");
    };
    before_outage();

    // Twenty seconds without UFM: who runs is not touched, who comes waits, who goes leaves the sandbox at once.
    let leaver = member_guid("red-2");
    fabric.ufm.go_down();
    let away = std::time::Instant::now();
    before_outage();
    objects.apply(&tenant_pod("default", "late", &nodes[1], "red"));
    kubectl(&["delete", "pod", "red-2", "--wait", "--timeout=60s"]).stdout_or_panic();
    let left = 20_u64.saturating_sub(away.elapsed().as_secs());
    holds_for("nobody starts outside a partition", left, || {
        match kubectl_get(&["pod", "late"])["status"]["phase"].as_str() {
            Some("Pending") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    fabric.wait_condition("Reachable", "False", 30);
    reaches("blue-1", "blue-2");
    fabric.ufm.come_up(true);
    objects.wait_ready("late", 120);
    began_with("late", RED);
    wait_not_member(&fabric, &nodes[1], &leaver, RED);
    fabric.wait_condition("Reachable", "True", 60);
    reaches("late", "red-1");
    does_not_reach("late", "blue-2");
    // One slow sandbox, not many that failed (case 63).
    let failed = pod_warnings("default", "late");
    assert!(!failed.contains("sandbox"), "it waited in one sandbox: {failed}");

    // Restarted without its memory, UFM is told again.
    let kept = [member_guid("red-1"), member_guid("late")];
    fabric.ufm.go_down();
    fabric.ufm.come_up(false);
    eventually("UFM knows all of them again", 60, || {
        let (red, blue) = (fabric.members(RED), fabric.members(BLUE));
        match kept.iter().all(|guid| red.contains(guid)) && blue.len() == 2 {
            true => Ok(()),
            false => Err(format!("{red:?} {blue:?}")),
        }
    });
    reaches("late", "red-1");
    run_lab(&["ferroband", "--", "partition", "diff"]).stdout_or_panic();

    let last = [member_guid("red-1"), member_guid("blue-1")];
    kubectl(&["delete", "pod", "red-1", "blue-1", "--wait", "--timeout=60s"]).stdout_or_panic();
    wait_not_member(&fabric, &nodes[0], &last[0], RED);
    wait_not_member(&fabric, &nodes[0], &last[1], BLUE);
}

#[test]
fn forged_annotations_get_nothing() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply("{apiVersion: v1, kind: Namespace, metadata: {name: mallory}}");
    objects.apply(
        &json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "Partition", "metadata": {"name": "red"},
            "spec": {"pkey": "0x3e8", "namespaces": ["default"], "mode": "enforce"},
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
        // A network of its own making, in a partition that is not its namespace's.
        ("foreign-key", json!([{"name": "red", "cni-args": mark}]), "may not use partition"),
        ("foreign-network", json!([{"name": "red", "namespace": "default"}]), "may not use partition"),
        // Another pod's GUID, under both of its names.
        ("stolen-guid", json!([{"name": "plain", "cni-args": with("guid", &victim)}]), "GUID"),
        // A storage server's, which is not from the pool.
        (
            "server-guid",
            json!([{"name": "plain", "cni-args": with("guid", "e4:1d:2d:03:00:12:34:57")}]),
            "GUID",
        ),
    ] {
        objects.apply(&tenant_pod("mallory", name, &nodes[1], &networks.to_string()));
        eventually(&format!("{name} is refused"), 60, || match pod_warnings("mallory", name) {
            told if told.contains(word) => Ok(()),
            told => Err(told),
        });
        let phase = kubectl_get(&["pod", "-n", "mallory", name])["status"]["phase"].clone();
        assert_eq!(phase, "Pending", "{name}");
        kubectl(&["delete", "pod", "-n", "mallory", name, "--wait", "--timeout=60s"]).stdout_or_panic();
    }
    // Marked as configured with a P_Key that its network does not have: it runs, in no partition.
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
    let said = kubectl(&["logs", "-n", "mallory", "marked"]).stdout_or_panic();
    assert_eq!(said.trim(), "0x7fff", "the default partition, limited");
    assert_eq!(fabric.members(RED), [victim], "nobody else was ever let in");
    let ever: Vec<_> =
        fabric.ufm.events().into_iter().filter(|event| event.member && event.key == RED).collect();
    assert_eq!(ever.len(), 1, "{ever:?}");
}
