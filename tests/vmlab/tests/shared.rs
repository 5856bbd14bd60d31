//! Pods that share the RDMA devices of their nodes: document 002 to its end.

use ferroband_cluster_tests::hardware::offered;
use ferroband_cluster_tests::{Objects, inside, nodes, on};
use ferroband_vmlab_tests::reading::read_bw;
use ferroband_vmlab_tests::{POD, complaints, say};
use std::fs;
use std::path::Path;

#[test]
fn shared_seed_002_two_pods_measure_their_bandwidth() {
    let nodes = nodes();
    for node in &nodes {
        let mode = on(node, "rdma system").good();
        assert!(mode.starts_with("netns shared"), "{node}: {mode}");
        offered(node, "jarvice.com/rdma", "1");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rdma-device/pods.yaml");
    let pods = fs::read_to_string(path).expect("the example");
    let mut objects = Objects::default();
    // The lab has one Debian for every distribution.
    objects.apply(&pods.replace("ubuntu:24.04", "ferroband.lab/tools:1"));
    let (first, second) = (objects.running("ibpod", POD), objects.running("ibpod2", POD));
    assert_ne!(first["spec"]["nodeName"], second["spec"]["nodeName"], "one unit on each node");
    let seen = inside("ibpod", "ibv_devinfo -d mlx5_0").good();
    assert!(seen.contains("PORT_ACTIVE"), "{seen}");
    let address = first["status"]["podIP"].as_str().expect("an address");
    let table = read_bw("ibpod", "ibpod2", address, "mlx5_0").expect("the pods read each other's memory");
    assert!(table.contains("BW average[Gb/sec]") && table.contains("65536"), "{table}");
    say(&format!("document 002, ib_read_bw from ibpod2 to ibpod:\n{table}"));
    drop(objects);
    for node in &nodes {
        assert_eq!(complaints(node), "", "kernel of {node}");
    }
}
