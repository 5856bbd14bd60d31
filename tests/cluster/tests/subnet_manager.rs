//! opensm on a node, as document 004 requires: the administrator labels the node, the node daemon runs opensm, and the
//! fabric enforces partitions. The fabric is ibsim; opensm is real.

use ferroband_cluster_tests::ibsim::IbsimFabric;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::tenants::{apply_tenant_networks, member_guid, tenant_pod};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, ferroband, kill_node_daemon, kubectl, kubectl_get,
    node_names,
};
use serde_json::Value;

const LABEL: &str = "node-restriction.kubernetes.io/ferroband-subnet-manager";

/// Waits for a condition of the Fabric object.
#[track_caller]
fn wait_condition(kind: &str, status: &str) -> Value {
    eventually(&format!("fabric {kind}={status}"), 90, || {
        let list = kubectl_get(&["fabrics.ferroband.io"]);
        let fabric = list["items"][0]["status"].clone();
        let all = fabric["conditions"].as_array().cloned().unwrap_or_default();
        let by_opensm = fabric["manager"].as_str().is_some_and(|manager| manager.contains("opensm"));
        match all.into_iter().find(|condition| condition["type"] == kind) {
            Some(found) if found["status"] == status && by_opensm => Ok(found),
            _ => Err(format!("{list} {}", kubectl(&["get", "subnetmanagerhosts", "-o", "json"]).out)),
        }
    })
}

/// PID of opensm on a node, or empty.
fn opensm_pid(node: &str) -> String {
    let script = "for p in /proc/[0-9]*; do grep -qs '^opensm' $p/comm && echo ${p#/proc/}; done; true";
    exec_on(node, script).stdout_or_panic().trim().to_owned()
}

#[track_caller]
fn wait_pkey(fabric: &IbsimFabric, guid: &str, key: &str, there: bool) {
    eventually(&format!("{key} in the table of {guid}: {there}"), 60, || {
        let table = fabric.pkey_table(guid);
        if table.iter().any(|found| found == key) == there { Ok(()) } else { Err(format!("{table:?}")) }
    });
}

fn can_ping(from: &str, to: &str, seconds: u32) -> bool {
    let there = first_ipv4(&pod_interface(to, "net1")).0;
    exec_in_pod(from, &format!("ping -c 1 -w {seconds} -I net1 {there}")).ok
}

struct SubnetManagerLabel<'a>(&'a str);

impl Drop for SubnetManagerLabel<'_> {
    fn drop(&mut self) {
        kubectl(&["label", "node", self.0, &format!("{LABEL}-")]);
    }
}

#[test]
fn opensm_runs_on_a_labelled_node_and_programs_partitions() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    apply_tenant_networks(&mut objects);
    let fabric = IbsimFabric::up(&nodes[0]);
    assert_eq!(opensm_pid(&nodes[0]), "", "opensm does not run without the label");
    let labelled = SubnetManagerLabel(&nodes[0]);
    kubectl(&["label", "node", &nodes[0], &format!("{LABEL}=mlx5_0")]).stdout_or_panic();
    eventually("opensm runs", 90, || {
        let host = kubectl_get(&["subnetmanagerhosts"])["items"][0]["status"].clone();
        if host["state"] == "running" { Ok(()) } else { Err(host.to_string()) }
    });
    assert_ne!(opensm_pid(&nodes[0]), "");
    wait_condition("Reachable", "True");
    wait_condition("Isolated", "True");

    for (name, node, network) in [("red-1", 0, "red"), ("red-2", 1, "red-too"), ("blue-1", 0, "blue")] {
        objects.apply(&tenant_pod("default", name, &nodes[node], network));
    }
    for (name, key) in [("red-1", "0x83e8"), ("red-2", "0x83e8"), ("blue-1", "0x87d0")] {
        objects.wait_ready(name, 120);
        // In the port's P_Key table before the pod started, and in ibsim's.
        assert_eq!(kubectl(&["logs", name]).stdout_or_panic().trim(), key, "{name}");
        let table = fabric.pkey_table(&member_guid(name));
        assert!(table.iter().any(|found| found == key), "{name} {table:?}");
    }
    assert!(can_ping("red-1", "red-2", 15) && !can_ping("red-1", "blue-1", 2));
    // The distribution's opensm does not support virtual functions. They work here only because of ibsim; a condition
    // says so.
    let virtualized = wait_condition("Virtualized", "False");
    assert!(
        virtualized["message"].as_str().is_some_and(|text| text.contains("virt_enabled")),
        "{virtualized}"
    );

    // The daemon is killed, and opensm with its container. Ports keep their tables; the next opensm continues.
    let (before, leaver) = (opensm_pid(&nodes[0]), member_guid("red-2"));
    kill_node_daemon(&nodes[0]);
    assert!(can_ping("red-1", "red-2", 15) && !can_ping("red-1", "blue-1", 2));
    kubectl(&["delete", "pod", "red-2", "--wait", "--timeout=120s"]).stdout_or_panic();
    wait_pkey(&fabric, &leaver, "0x83e8", false);
    assert_ne!(opensm_pid(&nodes[0]), before);
    // Only opensm is killed.
    exec_on(&nodes[0], &format!("kill -9 {}", opensm_pid(&nodes[0]))).stdout_or_panic();
    objects.apply(&tenant_pod("default", "late", &nodes[1], "red"));
    objects.wait_ready("late", 120);
    wait_pkey(&fabric, &member_guid("late"), "0x83e8", true);
    assert!(can_ping("late", "red-1", 15));
    ferroband(&["partition", "diff"]).stdout_or_panic();

    // The label is removed.
    drop(labelled);
    eventually("opensm is gone", 60, || {
        match (opensm_pid(&nodes[0]).as_str(), kubectl_get(&["subnetmanagerhosts"])["items"].as_array()) {
            ("", Some(hosts)) if hosts.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
