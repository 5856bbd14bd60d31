//! opensm on a node, as document 004 asks: the administrator labels it, the node's daemon runs the program, and partitions are
//! what the fabric does. The fabric is ibsim's, the opensm is the real one.

use ferroband_cluster_tests::evidence::{interface, ipv4};
use ferroband_cluster_tests::ibsim::Ibsim;
use ferroband_cluster_tests::tenants::{functions, guid, pod};
use ferroband_cluster_tests::{Objects, eventually, get, inside, kill_daemon, kubectl, lab, nodes, on};
use serde_json::Value;

const LABEL: &str = "ferroband.io/subnet-manager";

/// What the fabric's object says.
#[track_caller]
fn says(kind: &str, status: &str) -> Value {
    eventually(&format!("fabric {kind}={status}"), 90, || {
        let list = get(&["fabrics.ferroband.io"]);
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
    on(node, script).good().trim().to_owned()
}

#[track_caller]
fn shows(fabric: &Ibsim, guid: &str, key: &str, there: bool) {
    eventually(&format!("{key} in the table of {guid}: {there}"), 60, || {
        let table = fabric.table(guid);
        if table.iter().any(|found| found == key) == there { Ok(()) } else { Err(format!("{table:?}")) }
    });
}

fn ping(from: &str, to: &str, seconds: u32) -> bool {
    let there = ipv4(&interface(to, "net1")).0;
    inside(from, &format!("ping -c 1 -w {seconds} -I net1 {there}")).ok
}

struct Labelled<'a>(&'a str);

impl Drop for Labelled<'_> {
    fn drop(&mut self) {
        kubectl(&["label", "node", self.0, &format!("{LABEL}-")]);
    }
}

#[test]
fn seed_004_opensm_is_started_on_a_labelled_node_and_partitions_are_what_the_fabric_does() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    functions(&mut objects);
    let fabric = Ibsim::up(&nodes[0]);
    assert_eq!(opensm(&nodes[0]), "", "nobody asked for one");
    let labelled = Labelled(&nodes[0]);
    kubectl(&["label", "node", &nodes[0], &format!("{LABEL}=mlx5_0")]).good();
    eventually("opensm runs", 90, || {
        let host = get(&["subnetmanagerhosts"])["items"][0]["status"].clone();
        if host["state"] == "running" { Ok(()) } else { Err(host.to_string()) }
    });
    assert_ne!(opensm(&nodes[0]), "");
    says("Reachable", "True");
    says("Isolated", "True");

    for (name, node, network) in [("red-1", 0, "red"), ("red-2", 1, "red-too"), ("blue-1", 0, "blue")] {
        objects.apply(&pod("default", name, &nodes[node], network));
    }
    for (name, key) in [("red-1", "0x83e8"), ("red-2", "0x83e8"), ("blue-1", "0x87d0")] {
        objects.running(name, 120);
        // In its own port's table before it began to run; and in the fabric's.
        assert_eq!(kubectl(&["logs", name]).good().trim(), key, "{name}");
        let table = fabric.table(&guid(name));
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
    let (before, leaver) = (opensm(&nodes[0]), guid("red-2"));
    kill_daemon(&nodes[0]);
    assert!(ping("red-1", "red-2", 15) && !ping("red-1", "blue-1", 2));
    kubectl(&["delete", "pod", "red-2", "--wait", "--timeout=120s"]).good();
    shows(&fabric, &leaver, "0x83e8", false);
    assert_ne!(opensm(&nodes[0]), before);
    // opensm alone is killed.
    on(&nodes[0], &format!("kill -9 {}", opensm(&nodes[0]))).good();
    objects.apply(&pod("default", "late", &nodes[1], "red"));
    objects.running("late", 120);
    shows(&fabric, &guid("late"), "0x83e8", true);
    assert!(ping("late", "red-1", 15));
    lab(&["ferroband", "--", "partition", "diff"]).good();

    // The node is chosen no more.
    drop(labelled);
    eventually("opensm is gone", 60, || {
        match (opensm(&nodes[0]).as_str(), get(&["subnetmanagerhosts"])["items"].as_array()) {
            ("", Some(hosts)) if hosts.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
