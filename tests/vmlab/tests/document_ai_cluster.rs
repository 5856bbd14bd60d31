//! The part of document 003 that simulated hardware cannot test: eight RDMA devices that are visible only in their pod.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::{TestObjects, exec_in_pod, exec_on, node_names};
use ferroband_vmlab_tests::perftest::read_lat_between;
use ferroband_vmlab_tests::sriov::{RESOURCE, create_vfs, vf_network};
use ferroband_vmlab_tests::{POD_TIMEOUT, exec_eventually, kernel_complaints, pod_manifest};
use std::collections::BTreeSet;

/// Adapters per node in the document.
const NICS: usize = 8;

fn devices(pod: &str) -> BTreeSet<String> {
    exec_in_pod(pod, "ls /sys/class/infiniband")
        .stdout_or_panic()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[test]
fn eight_functions_are_visible_only_in_their_pod_and_carry_traffic() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    create_vfs(&mut objects, &nodes, NICS);
    objects.apply(&vf_network("rails", "10.95.0.0/24"));
    let networks = ["rails"; NICS].join(",");
    for (name, node) in ["rank-0", "rank-1"].iter().zip(&nodes) {
        let annotation = format!("k8s.v1.cni.cncf.io/networks: \"{networks}\"");
        objects.apply(&pod_manifest(name, node, &annotation, &format!("{RESOURCE}: {NICS}")));
    }
    for (name, node) in ["rank-0", "rank-1"].iter().zip(&nodes) {
        objects.wait_ready(name, 2 * POD_TIMEOUT);
        let own = devices(name);
        assert_eq!(own.len(), NICS, "{name} sees {own:?}");
        exec_eventually(name, 120, &format!("test $(rdma link | grep -c 'state ACTIVE') = {NICS}"));
        let left: BTreeSet<String> = exec_on(node, "ls /sys/class/infiniband")
            .stdout_or_panic()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert!(own.is_disjoint(&left), "{node} still sees {left:?}");
    }
    let (there, _) = first_ipv4(&pod_interface("rank-0", "net1"));
    exec_eventually("rank-1", 120, &format!("ping -q -c 2 -W 3 -I net1 {there}"));
    let (default, _) = first_ipv4(&pod_interface("rank-0", "eth0"));
    let (first, last) = (devices("rank-0").pop_first(), devices("rank-1").pop_last());
    let ends = (first.expect("a device"), last.expect("a device"));
    read_lat_between(("rank-0", &ends.0), ("rank-1", &ends.1), &default)
        .expect("the pods read each other's memory");
    drop(objects);
    for node in &nodes {
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
        assert_eq!(
            exec_on(node, "rdma dev | wc -l").stdout_or_panic().trim(),
            (NICS + 2).to_string(),
            "devices of {node}"
        );
    }
}
