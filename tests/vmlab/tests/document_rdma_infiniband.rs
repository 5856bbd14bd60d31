//! Document 001, RDMA with InfiniBand, complete with the kernel's InfiniBand stack: exclusive mode, two nodes,
//! `ib_read_lat`.

use ferroband_cluster_tests::hardware::allocatable;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::{
    RDMA_INFINIBAND_EXAMPLES, TestObjects, document_manifests, eventually, exec_in_pod, exec_on, node_names,
    wait_pods_ready,
};
use ferroband_vmlab_tests::perftest::read_lat;
use ferroband_vmlab_tests::sriov::{RESOURCE, assert_only_own_device};
use ferroband_vmlab_tests::{POD_TIMEOUT, exec_eventually, kernel_complaints, print_past_harness};
use serde_json::Value;

/// Manifests of the document: policy, network and pods for SR-IOV; network and pods for IPoIB.
fn document() -> [String; 5] {
    document_manifests("001", &RDMA_INFINIBAND_EXAMPLES).try_into().expect("five commands")
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().expect("a pod has a name").to_string()
}

#[track_caller]
fn assert_no_kernel_complaints(nodes: &[String]) {
    for node in nodes {
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
    }
}

#[test]
fn sriov_pods_of_the_document_read_each_others_memory() {
    let nodes = node_names();
    for node in &nodes {
        let mode = exec_on(node, "rdma system").stdout_or_panic();
        assert!(mode.starts_with("netns exclusive"), "{node}: {mode}");
    }
    let [policy, network, pods, _, _] = document();
    let mut objects = TestObjects::default();
    objects.apply(&policy);
    for node in &nodes {
        eventually("twelve functions are allocatable", 2 * POD_TIMEOUT, || {
            match &*allocatable(node, RESOURCE) {
                "12" => Ok(()),
                other => Err(format!("{node}: {other}")),
            }
        });
    }
    objects.apply(&network);
    objects.apply(&pods);
    let running = wait_pods_ready("app=ib-sriov", nodes.len(), POD_TIMEOUT);
    let (server, client) = (name(&running[0]), name(&running[1]));
    for pod in [&server, &client] {
        // veth0 is the coordinator's veth to the node, for probes and services.
        assert_only_own_device(pod, &["lo", "eth0", "veth0"]);
    }
    let (address, _) = first_ipv4(&pod_interface(&server, "eth0"));
    exec_eventually(&client, 120, &format!("ping -q -c 2 -W 3 {address}"));
    let table = read_lat(&server, &client, &address).expect("the pods read each other's memory");
    assert!(table.contains("t_typical"), "{table}");
    print_past_harness(&format!(
        "document 001, ib_read_lat from {client} on {} to {server} on {}:\n{table}",
        nodes[1], nodes[0]
    ));
    drop(objects);
    for node in &nodes {
        eventually("the functions are removed", 2 * POD_TIMEOUT, || {
            match &*exec_on(node, "rdma dev | wc -l").stdout_or_panic() {
                "2\n" => Ok(()),
                other => Err(format!("{node}: {other} RDMA devices")),
            }
        });
    }
    assert_no_kernel_complaints(&nodes);
}

#[test]
fn ipoib_pods_of_the_document_reach_each_other() {
    let nodes = node_names();
    let [_, _, _, network, pods] = document();
    let mut objects = TestObjects::default();
    objects.apply(&network);
    objects.apply(&pods);
    let running = wait_pods_ready("app=ipoib", nodes.len(), POD_TIMEOUT);
    let (one, two) = (name(&running[0]), name(&running[1]));
    let link = exec_in_pod(&one, "ip -d link show dev eth0").stdout_or_panic();
    assert!(link.contains("link/infiniband") && link.contains("ipoib pkey 0xffff"), "{link}");
    let (address, _) = first_ipv4(&pod_interface(&two, "eth0"));
    let output = exec_eventually(&one, 120, &format!("ping -c 3 -W 3 {address}"));
    print_past_harness(&format!("document 001, IPoIB pods on {} and {}:\n{output}", nodes[0], nodes[1]));
    drop(objects);
    assert_no_kernel_complaints(&nodes);
}
