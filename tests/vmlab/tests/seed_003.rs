//! What document 003 shows in its pods and simulated hardware cannot: eight RDMA devices in one pod, and nobody else's.

use ferroband_cluster_tests::evidence::{interface, ipv4};
use ferroband_cluster_tests::{Objects, inside, nodes, on};
use ferroband_vmlab_tests::reading::read_lat_by;
use ferroband_vmlab_tests::sriov::{RESOURCE, functions, network};
use ferroband_vmlab_tests::{POD, complaints, pod, succeeds_in};
use std::collections::BTreeSet;

/// As many as the document's nodes have adapters.
const NICS: usize = 8;

fn devices(pod: &str) -> BTreeSet<String> {
    inside(pod, "ls /sys/class/infiniband").good().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn seed_003_eight_functions_in_a_pod_are_seen_there_alone_and_carry_traffic() {
    let (mut objects, nodes) = (Objects::default(), nodes());
    functions(&mut objects, &nodes, NICS);
    objects.apply(&network("rails", "10.95.0.0/24"));
    let networks = ["rails"; NICS].join(",");
    for (name, node) in ["rank-0", "rank-1"].iter().zip(&nodes) {
        let annotation = format!("k8s.v1.cni.cncf.io/networks: \"{networks}\"");
        objects.apply(&pod(name, node, &annotation, &format!("{RESOURCE}: {NICS}")));
    }
    for (name, node) in ["rank-0", "rank-1"].iter().zip(&nodes) {
        objects.running(name, 2 * POD);
        let own = devices(name);
        assert_eq!(own.len(), NICS, "{name} sees {own:?}");
        succeeds_in(name, 120, &format!("test $(rdma link | grep -c 'state ACTIVE') = {NICS}"));
        let left: BTreeSet<String> =
            on(node, "ls /sys/class/infiniband").good().split_whitespace().map(str::to_owned).collect();
        assert!(own.is_disjoint(&left), "{node} still sees {left:?}");
    }
    let (there, _) = ipv4(&interface("rank-0", "net1"));
    succeeds_in("rank-1", 120, &format!("ping -q -c 2 -W 3 -I net1 {there}"));
    let (default, _) = ipv4(&interface("rank-0", "eth0"));
    let (first, last) = (devices("rank-0").pop_first(), devices("rank-1").pop_last());
    let ends = (first.expect("a device"), last.expect("a device"));
    read_lat_by(("rank-0", &ends.0), ("rank-1", &ends.1), &default)
        .expect("the pods read each other's memory");
    drop(objects);
    for node in &nodes {
        assert_eq!(complaints(node), "", "kernel of {node}");
        assert_eq!(on(node, "rdma dev | wc -l").good().trim(), (NICS + 2).to_string(), "devices of {node}");
    }
}
