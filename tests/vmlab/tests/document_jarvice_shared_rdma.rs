//! Document 002 with the kernel's InfiniBand stack: pods that share the RDMA devices of their nodes.

use ferroband_cluster_tests::hardware::wait_allocatable;
use ferroband_cluster_tests::{TestObjects, exec_in_pod, exec_on, node_names};
use ferroband_vmlab_tests::perftest::read_bw;
use ferroband_vmlab_tests::{POD_TIMEOUT, kernel_complaints, print_past_harness};
use std::fs;
use std::path::Path;

#[test]
fn shared_rdma_pods_of_the_document_measure_their_bandwidth() {
    let nodes = node_names();
    for node in &nodes {
        let mode = exec_on(node, "rdma system").stdout_or_panic();
        assert!(mode.starts_with("netns shared"), "{node}: {mode}");
        wait_allocatable(node, "jarvice.com/rdma", "1");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rdma-device/pods.yaml");
    let pods = fs::read_to_string(path).expect("the example");
    let mut objects = TestObjects::default();
    objects.apply(&pods);
    let (first, second) =
        (objects.wait_ready("ibpod", POD_TIMEOUT), objects.wait_ready("ibpod2", POD_TIMEOUT));
    assert_ne!(first["spec"]["nodeName"], second["spec"]["nodeName"], "one unit on each node");
    let output = exec_in_pod("ibpod", "ibv_devinfo -d mlx5_0").stdout_or_panic();
    assert!(output.contains("PORT_ACTIVE"), "{output}");
    let address = first["status"]["podIP"].as_str().expect("an address");
    let table = read_bw("ibpod", "ibpod2", address, "mlx5_0").expect("the pods read each other's memory");
    assert!(table.contains("BW average[Gb/sec]") && table.contains("65536"), "{table}");
    print_past_harness(&format!("document 002, ib_read_bw from ibpod2 to ibpod:\n{table}"));
    drop(objects);
    for node in &nodes {
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
    }
}
