//! What a node daemon takes when the cluster has many granules. Only in `cargo xtask test soak`: they take a while to make.

use ferroband_cluster_tests::{eventually, for_each_daemon, kubectl, kubectl_with, node_names, soak_rounds};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// As many as a cluster of 160,000 addresses has.
const GRANULES: u32 = 10_000;
/// The budget.
const MOST: u64 = 30 * 1024;
const LABEL: &str = "ferroband.lab/many=true";

fn granule(number: u32) -> Value {
    let first = Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + 16 * number);
    // As full as a pod each would make it.
    let entries: serde_json::Map<_, _> = (0..16)
        .map(|offset| {
            let entry = json!({
                "pod": format!("namespace-{}/some-workload-{number}-{offset}", number % 50),
                "uid": format!("{number:08x}-0000-4000-8000-{offset:012x}"), "interface": "net1",
                "container": format!("{number:032x}{offset:032x}"), "node": format!("far-{}", number % 1000),
                "pool": "100.64.0.0/10",
            });
            (offset.to_string(), entry)
        })
        .collect();
    json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock",
        "metadata": {"name": format!("default-{first}"), "labels": {"ferroband.lab/many": "true"}},
        "spec": {"space": "default", "first": first.to_string(), "entries": entries, "used": 16, "free": 0},
    })
}

fn resident(node: &str) -> u64 {
    for_each_daemon(node, "node", "awk '/VmRSS/ {print $2}' $p/status").trim().parse().expect("one daemon")
}

#[test]
fn a_node_daemon_stays_small_among_ten_thousand_granules() {
    if soak_rounds() < 2 {
        return;
    }
    let node = node_names()[0].clone();
    let before = resident(&node);
    // Nodes that do not exist are fenced: what they have is taken back at once, so the collector rests meanwhile.
    let cluster = ["-n", "ferroband-system", "scale", "deployment/ferroband-cluster"];
    kubectl(&[&cluster[..], &["--replicas=0"]].concat()).stdout_or_panic();
    let result = std::panic::catch_unwind(|| {
        for part in 0..GRANULES / 500 {
            let items: Vec<_> = (part * 500..(part + 1) * 500).map(granule).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
            kubectl_with(&["create", "-f", "-"], &list).stdout_or_panic();
        }
        eventually("it is done with them", 120, || {
            let now = resident(&node);
            std::thread::sleep(std::time::Duration::from_secs(5));
            let later = resident(&node);
            if later <= now { Ok(later) } else { Err(format!("{now} kB, {later} kB")) }
        })
    });
    kubectl(&["delete", "addressblocks.ferroband.io", "-l", LABEL, "--wait=false"]).stdout_or_panic();
    kubectl(&[&cluster[..], &["--replicas=2"]].concat()).stdout_or_panic();
    let after = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    println!("node daemon: {before} kB without, {after} kB with {GRANULES} full granules");
    assert!(after < MOST, "{after} kB");
}
