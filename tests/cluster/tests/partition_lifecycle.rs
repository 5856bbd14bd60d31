//! Partition membership over the pod lifecycle: the cases that need a kubelet, on one fabric.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::leader::{kill_leader, leader_pod, stop_leader};
use ferroband_cluster_tests::shared_fixture::run_tests;
use ferroband_cluster_tests::tenants::{
    RED, member_guid, partition_member, pod_warnings, tenant_fixture, tenant_pod, wait_not_member,
};
use ferroband_cluster_tests::{
    TestObjects, eventually, ferroband, holds_for, kubectl, kubectl_get, node_names, wait_pod_ready,
};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Lease duration of the leader.
const LEASE: Duration = Duration::from_secs(15);

/// A simulated UFM, and the tenants' networks and pods.
struct TenantFabric {
    fabric: UfmFabric,
    objects: TestObjects,
    nodes: Vec<String>,
}

fn main() -> ExitCode {
    let create = || {
        let mut objects = TestObjects::default();
        let fabric = tenant_fixture(&mut objects);
        TenantFabric { fabric, objects, nodes: node_names() }
    };
    run_tests(
        create,
        &[
            ("host_network_pod_is_not_a_member", host_network_pod_is_not_a_member),
            (
                "unscheduled_pod_is_added_once_after_scheduling",
                unscheduled_pod_is_added_once_after_scheduling,
            ),
            (
                "membership_is_removed_after_its_network_was_deleted",
                membership_is_removed_after_its_network_was_deleted,
            ),
            (
                "requested_guid_leaves_its_partition_with_the_pod",
                requested_guid_leaves_its_partition_with_the_pod,
            ),
            (
                "running_member_stays_when_a_partition_is_enforced_later",
                running_member_stays_when_a_partition_is_enforced_later,
            ),
            ("completed_pod_is_removed_once", completed_pod_is_removed_once),
            (
                "pod_deleted_before_it_was_added_leaves_nothing",
                pod_deleted_before_it_was_added_leaves_nothing,
            ),
            ("early_add_waits_in_one_sandbox", early_add_waits_in_one_sandbox),
            ("new_leader_takes_over_within_the_lease", new_leader_takes_over_within_the_lease),
        ],
    )
}

/// Applies changes to a manifest.
fn with(manifest: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut object: Value = serde_json::from_str(manifest).expect("JSON");
    change(&mut object);
    object.to_string()
}

/// All membership changes of a GUID at UFM: true for added, false for removed.
fn membership_changes(fabric: &UfmFabric, guid: &str) -> Vec<bool> {
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

// Case: partitions 11
fn host_network_pod_is_not_a_member(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&with(&tenant_pod("default", "on-the-host", node, "red"), |pod| {
        pod["spec"]["hostNetwork"] = json!(true);
        pod["spec"]["containers"][0]["resources"] = json!({});
        pod["spec"]["containers"][0]["command"] = json!(["sleep", "100000"]);
    }));
    let running_pod = wait_pod_ready("on-the-host", 120);
    assert_eq!(running_pod["metadata"]["annotations"][NETWORKS], "red", "the annotation is unchanged");
    assert_eq!(partition_member("on-the-host"), None);
    assert!(fabric.members(RED).is_empty() && fabric.ufm.events().is_empty(), "UFM got no request");
    delete("on-the-host");
}

// Case: partitions 13
fn unscheduled_pod_is_added_once_after_scheduling(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&with(&tenant_pod("default", "gated", node, "red"), |pod| {
        let spec = pod["spec"].as_object_mut().expect("a spec");
        spec.remove("nodeName");
        spec.insert("nodeSelector".to_owned(), json!({"kubernetes.io/hostname": node}));
        spec.insert("schedulingGates".to_owned(), json!([{"name": "ferroband.io/test"}]));
    }));
    holds_for("no membership for the unscheduled pod", 2, || {
        match (partition_member("gated"), fabric.ufm.events().len()) {
            (None, 0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let open = json!([{"op": "remove", "path": "/spec/schedulingGates"}]).to_string();
    kubectl(&["patch", "pod", "gated", "--type=json", "-p", &open]).stdout_or_panic();
    let running_pod = wait_pod_ready("gated", 120);
    let guid = member_guid("gated");
    assert_eq!(membership_changes(fabric, &guid), [true], "once");
    // The annotation is in ib-kubernetes' format.
    let text = running_pod["metadata"]["annotations"][NETWORKS].as_str().unwrap_or_default();
    let networks: Value = serde_json::from_str(text).unwrap_or_default();
    let args = &networks[0]["cni-args"];
    assert_eq!(
        (&args["mellanox.infiniband.app"], &args["guid"]),
        (&json!("configured"), &json!(guid)),
        "{text}"
    );
    delete("gated");
    wait_not_member(fabric, node, &guid, RED);
}

// Case: partitions 42
fn membership_is_removed_after_its_network_was_deleted(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&tenant_pod("default", "orphan", node, "red-too"));
    wait_pod_ready("orphan", 120);
    let guid = member_guid("orphan");
    kubectl(&["delete", "net-attach-def", "red-too", "--wait"]).stdout_or_panic();
    delete("orphan");
    wait_not_member(fabric, node, &guid, RED);
}

// Case: partitions 33
fn requested_guid_leaves_its_partition_with_the_pod(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let (node, guid) = (nodes[0].as_str(), "02:00:00:00:00:00:0a:77");
    let networks = json!([{"name": "red", "cni-args": {"guid": guid}}]).to_string();
    objects.apply(&tenant_pod("default", "requester", node, &networks));
    wait_pod_ready("requester", 120);
    assert_eq!(member_guid("requester"), guid);
    delete("requester");
    wait_not_member(fabric, node, guid, RED);
    assert_eq!(membership_changes(fabric, guid), [true, false]);
}

// Case: partitions 85
fn running_member_stays_when_a_partition_is_enforced_later(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&tenant_pod("default", "resident", node, "red"));
    wait_pod_ready("resident", 120);
    let guid = member_guid("resident");
    let mut partition = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "Partition", "metadata": {"name": "later"},
        "spec": {"pkey": "0x3e8", "namespaces": ["someone-else"], "mode": "enforce"},
    });
    objects.apply(&partition.to_string());
    eventually("the Partition reports the running member", 30, || {
        let status = kubectl_get(&["partitions.ferroband.io", "later"])["status"].clone();
        let condition = &status["conditions"][0];
        let message = condition["message"].as_str().unwrap_or_default();
        match condition["reason"] == "RunningMembersKept" && message.contains("default/resident") {
            true => Ok(()),
            false => Err(status.to_string()),
        }
    });
    eventually("the pod has an event", 30, || match pod_warnings("default", "resident") {
        messages if messages.contains("removeRunningMembers") => Ok(()),
        messages => Err(messages),
    });
    let doctor = ferroband(&["doctor", "cluster"]);
    assert!(!doctor.ok && doctor.out.contains("Partition later"), "{doctor:?}");
    objects.apply(&tenant_pod("default", "newcomer", node, "red"));
    eventually("a new pod is refused", 60, || match pod_warnings("default", "newcomer") {
        messages if messages.contains("may not use partition") => Ok(()),
        messages => Err(messages),
    });
    assert_eq!(fabric.members(RED), std::slice::from_ref(&guid), "the running pod is still a member");
    assert_eq!(membership_changes(fabric, &guid).last(), Some(&true), "and was all the time");
    // The administrator confirms the removal.
    partition["spec"]["removeRunningMembers"] = json!(true);
    objects.apply(&partition.to_string());
    wait_not_member(fabric, node, &guid, RED);
    delete("newcomer");
    delete("resident");
    kubectl(&["delete", "partitions.ferroband.io", "later", "--wait"]).stdout_or_panic();
}

// Case: partitions 53
fn completed_pod_is_removed_once(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&with(&tenant_pod("default", "done", node, "red"), |pod| {
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "sleep 3"]);
    }));
    let guid = eventually("the pod is a member", 120, || {
        partition_member("done").ok_or_else(|| "not yet".to_owned())
    });
    let guid = guid["guid"].as_str().expect("a GUID").to_owned();
    eventually("the pod succeeds", 120, || match kubectl_get(&["pod", "done"])["status"]["phase"].as_str() {
        Some("Succeeded") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    wait_not_member(fabric, node, &guid, RED);
    assert_eq!(kubectl_get(&["pod", "done"])["status"]["phase"], "Succeeded", "the object is still there");
    let (before, calls) = (membership_changes(fabric, &guid), fabric.ufm.calls_matching("remove").len());
    delete("done");
    holds_for("nothing is removed twice", 2, || {
        let now = (membership_changes(fabric, &guid), fabric.ufm.calls_matching("remove").len());
        if now == (before.clone(), calls) { Ok(()) } else { Err(format!("{now:?}")) }
    });
}

// Case: partitions 54
fn pod_deleted_before_it_was_added_leaves_nothing(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[1].as_str();
    fabric.ufm.go_down();
    objects.apply(&tenant_pod("default", "hasty", node, "red"));
    let waits =
        eventually("the pod waits", 120, || partition_member("hasty").ok_or_else(|| "not yet".to_owned()));
    assert_ne!(waits["state"], "programmed", "{waits}");
    let guid = waits["guid"].as_str().expect("a GUID").to_owned();
    let before = membership_changes(fabric, &guid);
    delete("hasty");
    eventually("the membership request is gone", 120, || {
        partition_member("hasty").map_or(Ok(()), |row| Err(row.to_string()))
    });
    fabric.ufm.come_up(true);
    fabric.wait_condition("Reachable", "True", 60);
    holds_for("no member is left", 2, || match (fabric.members(RED), membership_changes(fabric, &guid)) {
        (members, now) if members.is_empty() && now == before => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

// Case: partitions 63
fn early_add_waits_in_one_sandbox(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[1].as_str();
    fabric.ufm.go_down();
    objects.apply(&tenant_pod("default", "early", node, "red"));
    eventually("the pod waits", 120, || partition_member("early").ok_or_else(|| "not yet".to_owned()));
    holds_for("the pod does not run", 3, || {
        match kubectl_get(&["pod", "early"])["status"]["phase"].as_str() {
            Some("Pending") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    fabric.ufm.come_up(true);
    wait_pod_ready("early", 120);
    let failed = pod_warnings("default", "early");
    assert!(!failed.contains("sandbox"), "the pod waited in one sandbox: {failed}");
    assert_eq!(membership_changes(fabric, &member_guid("early")).last(), Some(&true));
    delete("early");
}

/// First the leader is killed and restarts. Then it is stopped with SIGSTOP: the other replica takes over when the
/// lease expires, and after SIGCONT both consider themselves leader for a moment.
// Case: partitions 61
fn new_leader_takes_over_within_the_lease(tenants: &mut TenantFabric) {
    let TenantFabric { fabric, objects, nodes } = tenants;
    let node = nodes[0].as_str();
    objects.apply(&tenant_pod("default", "before", node, "red"));
    let begun = Instant::now();
    wait_pod_ready("before", 120);
    // Baseline on this machine, added to the limit below.
    let usual = begun.elapsed();
    kill_leader();
    assert_starts_in_time(objects, "after-a-kill", node, usual);
    let stopped = stop_leader();
    assert_starts_in_time(objects, "after-a-stop", node, usual);
    assert_ne!(leader_pod(), stopped.pod, "the other replica leads");
    drop(stopped);
    holds_for("no membership is changed twice", 3, || {
        let names = ["before", "after-a-kill", "after-a-stop"];
        let mut guids = names.map(member_guid).to_vec();
        guids.sort();
        let mut members = fabric.members(RED);
        members.sort();
        let twice = guids
            .iter()
            .any(|guid| membership_changes(fabric, guid).windows(2).any(|pair| pair[0] == pair[1]));
        if guids == members && !twice { Ok(()) } else { Err(format!("{guids:?} {members:?}")) }
    });
}

/// Asserts that a new pod runs within the lease duration plus five seconds.
fn assert_starts_in_time(objects: &mut TestObjects, name: &str, node: &str, usual: Duration) {
    let begun = Instant::now();
    objects.apply(&tenant_pod("default", name, node, "red"));
    wait_pod_ready(name, 120);
    let took = begun.elapsed();
    println!("{name} runs after {took:.1?}; {usual:.1?} are usual; {} leads", leader_pod());
    assert!(took < LEASE + Duration::from_secs(5) + 2 * usual, "{name}: {took:?}");
}
