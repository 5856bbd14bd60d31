//! opensm on a node, as document 004 asks: the administrator labels it, the node's daemon runs the program, and partitions are
//! what the fabric does. The fabric is ibsim's, the opensm is the real one.

use ferroband_cluster_tests::ibsim::IbsimFabric;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::tenants::{apply_tenant_networks, member_guid, tenant_pod};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, kill_node_daemon, kubectl, kubectl_get, node_names,
    run_lab,
};
use serde_json::Value;

const LABEL: &str = "ferroband.io/subnet-manager";

/// What the fabric's object says.
#[track_caller]
fn says(kind: &str, status: &str) -> Value {
    eventually(&format!("fabric {kind}={status}"), 90, || {
        let list = kubectl_get(&["fabrics.ferroband.io"]);
        let fabric = list["items"][0]["status"].clone();
        let all = fabric["conditions"].as_array().cloned().unwrap_or_default();
        let ours = fabric["manager"].as_str().is_some_and(|manager| manager.contains("opensm"));
        match all.into_iter().find(|condition| condition["type"] == kind) {
            Some(found) if found["status"] == status && ours => Ok(found),
            _ => Err(format!("{list} {}", kubectl(&["get", "subnetmanagerhosts", "-o", "json"]).out)),
        }
    })
}

/// The number of the opensm on a node.
fn opensm(node: &str) -> String {
    let script = "for p in /proc/[0-9]*; do grep -qs '^opensm' $p/comm && echo ${p#/proc/}; done; true";
    exec_on(node, script).stdout_or_panic().trim().to_owned()
}

#[track_caller]
fn shows(fabric: &IbsimFabric, guid: &str, key: &str, there: bool) {
    eventually(&format!("{key} in the table of {guid}: {there}"), 60, || {
        let table = fabric.pkey_table(guid);
        if table.iter().any(|found| found == key) == there { Ok(()) } else { Err(format!("{table:?}")) }
    });
}

fn ping(from: &str, to: &str, seconds: u32) -> bool {
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
fn seed_004_opensm_is_started_on_a_labelled_node_and_partitions_are_what_the_fabric_does() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    apply_tenant_networks(&mut objects);
    let fabric = IbsimFabric::up(&nodes[0]);
    assert_eq!(opensm(&nodes[0]), "", "nobody asked for one");
    let labelled = SubnetManagerLabel(&nodes[0]);
    kubectl(&["label", "node", &nodes[0], &format!("{LABEL}=mlx5_0")]).stdout_or_panic();
    eventually("opensm runs", 90, || {
        let host = kubectl_get(&["subnetmanagerhosts"])["items"][0]["status"].clone();
        if host["state"] == "running" { Ok(()) } else { Err(host.to_string()) }
    });
    assert_ne!(opensm(&nodes[0]), "");
    says("Reachable", "True");
    says("Isolated", "True");

    for (name, node, network) in [("red-1", 0, "red"), ("red-2", 1, "red-too"), ("blue-1", 0, "blue")] {
        objects.apply(&tenant_pod("default", name, &nodes[node], network));
    }
    for (name, key) in [("red-1", "0x83e8"), ("red-2", "0x83e8"), ("blue-1", "0x87d0")] {
        objects.wait_ready(name, 120);
        // In its own port's table before it began to run; and in the fabric's.
        assert_eq!(kubectl(&["logs", name]).stdout_or_panic().trim(), key, "{name}");
        let table = fabric.pkey_table(&member_guid(name));
        assert!(table.iter().any(|found| found == key), "{name} {table:?}");
    }
    assert!(ping("red-1", "red-2", 15) && !ping("red-1", "blue-1", 2));
    // The distribution's opensm knows no virtual functions: that they work here is ibsim's doing, and it is told.
    let virtualized = says("Virtualized", "False");
    assert!(
        virtualized["message"].as_str().is_some_and(|text| text.contains("virt_enabled")),
        "{virtualized}"
    );

    // The daemon is killed, and with its container opensm. Ports keep what they have; the next one goes on.
    let (before, leaver) = (opensm(&nodes[0]), member_guid("red-2"));
    kill_node_daemon(&nodes[0]);
    assert!(ping("red-1", "red-2", 15) && !ping("red-1", "blue-1", 2));
    kubectl(&["delete", "pod", "red-2", "--wait", "--timeout=120s"]).stdout_or_panic();
    shows(&fabric, &leaver, "0x83e8", false);
    assert_ne!(opensm(&nodes[0]), before);
    // opensm alone is killed.
    exec_on(&nodes[0], &format!("kill -9 {}", opensm(&nodes[0]))).stdout_or_panic();
    objects.apply(&tenant_pod("default", "late", &nodes[1], "red"));
    objects.wait_ready("late", 120);
    shows(&fabric, &member_guid("late"), "0x83e8", true);
    assert!(ping("late", "red-1", 15));
    run_lab(&["ferroband", "--", "partition", "diff"]).stdout_or_panic();

    // The node is chosen no more.
    drop(labelled);
    eventually("opensm is gone", 60, || {
        match (opensm(&nodes[0]).as_str(), kubectl_get(&["subnetmanagerhosts"])["items"].as_array()) {
            ("", Some(hosts)) if hosts.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
