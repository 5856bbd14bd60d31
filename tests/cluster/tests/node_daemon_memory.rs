//! Memory of a node daemon in a cluster with many address blocks. Only in `cargo xtask test soak`: creating them is
//! slow.

use ferroband_cluster_tests::{eventually, for_each_daemon, kubectl, kubectl_with, node_names, soak_rounds};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// Blocks of a cluster with 160,000 addresses.
const BLOCKS: u32 = 10_000;
/// Memory budget in kB.
const MAX_RESIDENT_KB: u64 = 30 * 1024;
const LABEL: &str = "ferroband.lab/many=true";

fn full_block(number: u32) -> Value {
    let first = Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + 16 * number);
    // All 16 addresses are assigned.
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
        "spec": {"space": "default", "first": first.to_string(), "entries": entries},
    })
}

fn resident_kb(node: &str) -> u64 {
    for_each_daemon(node, "node", "awk '/VmRSS/ {print $2}' $p/status").trim().parse().expect("one daemon")
}

#[test]
fn node_daemon_stays_within_its_memory_budget_with_ten_thousand_blocks() {
    if soak_rounds() < 2 {
        return;
    }
    let node = node_names()[0].clone();
    let before = resident_kb(&node);
    // Missing nodes count as fenced, and the garbage collector would release their addresses: stop it meanwhile.
    let cluster = ["-n", "ferroband-system", "scale", "deployment/ferroband-cluster"];
    kubectl(&[&cluster[..], &["--replicas=0"]].concat()).stdout_or_panic();
    let result = std::panic::catch_unwind(|| {
        for part in 0..BLOCKS / 500 {
            let items: Vec<_> = (part * 500..(part + 1) * 500).map(full_block).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
            kubectl_with(&["create", "-f", "-"], &list).stdout_or_panic();
        }
        eventually("the memory stops growing", 120, || {
            let now = resident_kb(&node);
            std::thread::sleep(std::time::Duration::from_secs(5));
            let later = resident_kb(&node);
            if later <= now { Ok(later) } else { Err(format!("{now} kB, {later} kB")) }
        })
    });
    kubectl(&["delete", "addressblocks.ferroband.io", "-l", LABEL, "--wait=false"]).stdout_or_panic();
    kubectl(&[&cluster[..], &["--replicas=2"]].concat()).stdout_or_panic();
    let after = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    println!("node daemon: {before} kB without, {after} kB with {BLOCKS} full blocks");
    assert!(after < MAX_RESIDENT_KB, "{after} kB");
}
