//! The life of pods in partitions, case by case of the contract: each that needs a kubelet, on one fabric.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::leader::{kill_leader, leader_pod, signal_cluster_daemon, signal_leader};
use ferroband_cluster_tests::tenants::{
    RED, member_guid, partition_member, pod_warnings, tenant_fixture, tenant_pod, wait_not_member,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, holds_for, kubectl, kubectl_get, node_names, wait_pod_ready,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// How long whoever leads is believed to without renewing its lease.
const LEASE: Duration = Duration::from_secs(15);

#[test]
fn cases_11_13_42_53_54_61_and_63_of_a_pods_life() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let fabric = tenant_fixture(&mut objects);
    let begun = Instant::now();
    let done = |case: u32| println!("case {case}: done after {:.1?}", begun.elapsed());
    case_11_a_pod_of_the_hosts_network_is_untouched(&mut objects, &fabric, &nodes[0]);
    done(11);
    case_13_a_pod_without_a_node_is_nothing_and_then_is_let_in_once(&mut objects, &fabric, &nodes[0]);
    done(13);
    case_42_a_network_that_goes_before_its_pod(&mut objects, &fabric, &nodes[0]);
    done(42);
    case_53_a_pod_that_has_done_its_work(&mut objects, &fabric, &nodes[0]);
    done(53);
    case_54_deleted_before_it_was_let_in(&mut objects, &fabric, &nodes[1]);
    done(54);
    case_63_an_add_that_comes_too_early_waits_in_one_sandbox(&mut objects, &fabric, &nodes[1]);
    done(63);
    case_61_the_leader_is_killed(&mut objects, &fabric, &nodes[0]);
    done(61);
}

/// The manifest with changes.
fn with(manifest: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut object: Value = serde_json::from_str(manifest).expect("JSON");
    change(&mut object);
    object.to_string()
}

/// How often UFM let a GUID in or out, ever.
fn moves(fabric: &UfmFabric, guid: &str) -> Vec<bool> {
    fabric
        .ufm
        .events()
        .iter()
        .filter(|event| event.guid.to_string() == guid)
        .map(|event| event.member)
        .collect()
}

#[track_caller]
fn delete(pod: &str) {
    kubectl(&["delete", "pod", pod, "--wait", "--timeout=120s"]).stdout_or_panic();
}

fn case_11_a_pod_of_the_hosts_network_is_untouched(
    objects: &mut TestObjects,
    fabric: &UfmFabric,
    node: &str,
) {
    objects.apply(&with(&tenant_pod("default", "on-the-host", node, "red"), |pod| {
        pod["spec"]["hostNetwork"] = json!(true);
        pod["spec"]["containers"][0]["resources"] = json!({});
        pod["spec"]["containers"][0]["command"] = json!(["sleep", "100000"]);
    }));
    let seen = wait_pod_ready("on-the-host", 120);
    assert_eq!(seen["metadata"]["annotations"][NETWORKS], "red", "as it was written");
    assert_eq!(partition_member("on-the-host"), None);
    assert!(fabric.members(RED).is_empty() && fabric.ufm.events().is_empty(), "nobody was told anything");
    delete("on-the-host");
}

fn case_13_a_pod_without_a_node_is_nothing_and_then_is_let_in_once(
    objects: &mut TestObjects,
    fabric: &UfmFabric,
    node: &str,
) {
    objects.apply(&with(&tenant_pod("default", "gated", node, "red"), |pod| {
        let spec = pod["spec"].as_object_mut().expect("a spec");
        spec.remove("nodeName");
        spec.insert("nodeSelector".to_owned(), json!({"kubernetes.io/hostname": node}));
        spec.insert("schedulingGates".to_owned(), json!([{"name": "ferroband.io/test"}]));
    }));
    holds_for("nothing is done for it", 2, || match (partition_member("gated"), fabric.ufm.events().len()) {
        (None, 0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let open = json!([{"op": "remove", "path": "/spec/schedulingGates"}]).to_string();
    kubectl(&["patch", "pod", "gated", "--type=json", "-p", &open]).stdout_or_panic();
    let seen = wait_pod_ready("gated", 120);
    let guid = member_guid("gated");
    assert_eq!(moves(fabric, &guid), [true], "once");
    // As ib-kubernetes writes it, for whoever reads that.
    let text = seen["metadata"]["annotations"][NETWORKS].as_str().unwrap_or_default();
    let told: Value = serde_json::from_str(text).unwrap_or_default();
    let args = &told[0]["cni-args"];
    assert_eq!(
        (&args["mellanox.infiniband.app"], &args["guid"]),
        (&json!("configured"), &json!(guid)),
        "{text}"
    );
    delete("gated");
    wait_not_member(fabric, node, &guid, RED);
}

fn case_42_a_network_that_goes_before_its_pod(objects: &mut TestObjects, fabric: &UfmFabric, node: &str) {
    objects.apply(&tenant_pod("default", "orphan", node, "red-too"));
    wait_pod_ready("orphan", 120);
    let guid = member_guid("orphan");
    kubectl(&["delete", "net-attach-def", "red-too", "--wait"]).stdout_or_panic();
    delete("orphan");
    wait_not_member(fabric, node, &guid, RED);
}

fn case_53_a_pod_that_has_done_its_work(objects: &mut TestObjects, fabric: &UfmFabric, node: &str) {
    objects.apply(&with(&tenant_pod("default", "done", node, "red"), |pod| {
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "sleep 3"]);
    }));
    let guid = eventually("it is in its partition", 120, || {
        partition_member("done").ok_or_else(|| "not yet".to_owned())
    });
    let guid = guid["guid"].as_str().expect("a GUID").to_owned();
    eventually("it succeeds", 120, || match kubectl_get(&["pod", "done"])["status"]["phase"].as_str() {
        Some("Succeeded") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    wait_not_member(fabric, node, &guid, RED);
    assert_eq!(kubectl_get(&["pod", "done"])["status"]["phase"], "Succeeded", "the object is still there");
    let (before, calls) = (moves(fabric, &guid), fabric.ufm.calls_matching("remove").len());
    delete("done");
    holds_for("nothing is removed twice", 2, || {
        let now = (moves(fabric, &guid), fabric.ufm.calls_matching("remove").len());
        if now == (before.clone(), calls) { Ok(()) } else { Err(format!("{now:?}")) }
    });
}

fn case_54_deleted_before_it_was_let_in(objects: &mut TestObjects, fabric: &UfmFabric, node: &str) {
    fabric.ufm.go_down();
    objects.apply(&tenant_pod("default", "hasty", node, "red"));
    let waits = eventually("it waits", 120, || partition_member("hasty").ok_or_else(|| "not yet".to_owned()));
    assert_ne!(waits["state"], "programmed", "{waits}");
    let guid = waits["guid"].as_str().expect("a GUID").to_owned();
    let before = moves(fabric, &guid);
    delete("hasty");
    eventually("it is wanted nowhere", 120, || {
        partition_member("hasty").map_or(Ok(()), |row| Err(row.to_string()))
    });
    fabric.ufm.come_up(true);
    fabric.wait_condition("Reachable", "True", 60);
    holds_for("nothing is left of it", 2, || match (fabric.members(RED), moves(fabric, &guid)) {
        (members, now) if members.is_empty() && now == before => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn case_63_an_add_that_comes_too_early_waits_in_one_sandbox(
    objects: &mut TestObjects,
    fabric: &UfmFabric,
    node: &str,
) {
    fabric.ufm.go_down();
    objects.apply(&tenant_pod("default", "early", node, "red"));
    eventually("it waits", 120, || partition_member("early").ok_or_else(|| "not yet".to_owned()));
    holds_for("it does not run", 3, || match kubectl_get(&["pod", "early"])["status"]["phase"].as_str() {
        Some("Pending") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    fabric.ufm.come_up(true);
    wait_pod_ready("early", 120);
    let failed = pod_warnings("default", "early");
    assert!(!failed.contains("sandbox"), "it waited in one sandbox: {failed}");
    assert_eq!(moves(fabric, &member_guid("early")).last(), Some(&true));
    delete("early");
}

/// First one that is killed and comes back in its place; then one that hears nothing any more, which is worse: the other leads
/// when its lease is over, and for a moment both believe they do.
fn case_61_the_leader_is_killed(objects: &mut TestObjects, fabric: &UfmFabric, node: &str) {
    objects.apply(&tenant_pod("default", "before", node, "red"));
    let begun = Instant::now();
    wait_pod_ready("before", 120);
    // A busy machine gets as much again.
    let usual = begun.elapsed();
    kill_leader();
    timed(objects, "after-a-kill", node, usual);
    let stopped = leader_pod();
    let place = signal_leader("STOP");
    timed(objects, "after-a-stop", node, usual);
    assert_ne!(leader_pod(), stopped, "the other one leads");
    signal_cluster_daemon(&place, "CONT");
    holds_for("nobody is let in or out by two", 3, || {
        let names = ["before", "after-a-kill", "after-a-stop"];
        let mut guids = names.map(member_guid).to_vec();
        guids.sort();
        let mut members = fabric.members(RED);
        members.sort();
        let twice = guids.iter().any(|guid| moves(fabric, guid).windows(2).any(|pair| pair[0] == pair[1]));
        if guids == members && !twice { Ok(()) } else { Err(format!("{guids:?} {members:?}")) }
    });
}

/// A pod that is made now runs within a lease and five seconds.
fn timed(objects: &mut TestObjects, name: &str, node: &str, usual: Duration) {
    let begun = Instant::now();
    objects.apply(&tenant_pod("default", name, node, "red"));
    wait_pod_ready(name, 120);
    let took = begun.elapsed();
    println!("{name} runs after {took:.1?}; {usual:.1?} are usual; {} leads", leader_pod());
    assert!(took < LEASE + Duration::from_secs(5) + 2 * usual, "{name}: {took:?}");
}
