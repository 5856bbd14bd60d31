//! Pods with virtual functions on two kernels, RDMA devices in exclusive mode.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::{TestObjects, exec_in_pod, exec_on, node_names};
use ferroband_vmlab_tests::perftest::read_lat;
use ferroband_vmlab_tests::sriov::{assert_only_own_device, create_vfs, port_guid, vf_network, vf_pod};
use ferroband_vmlab_tests::{POD_TIMEOUT, exec_eventually, kernel_complaints, print_past_harness};

#[test]
fn pods_with_functions_read_each_others_memory_and_see_nothing_else() {
    let nodes = node_names();
    let mut objects = TestObjects::default();
    create_vfs(&mut objects, &nodes, 4);
    objects.apply(&vf_network("vm-sriov", "10.92.0.0/24"));
    for (name, node) in [("reader-1", &nodes[0]), ("reader-2", &nodes[1]), ("stranger", &nodes[1])] {
        objects.apply(&vf_pod(name, node, "vm-sriov"));
    }
    for name in ["reader-1", "reader-2", "stranger"] {
        objects.wait_ready(name, POD_TIMEOUT);
    }
    let (server, _) = first_ipv4(&pod_interface("reader-1", "net1"));

    for name in ["reader-1", "reader-2"] {
        assert_only_own_device(name, &["lo", "eth0", "net1"]);
    }

    // One partition for the two readers, another for the third pod; `indx0` puts its P_Key first in the port's table.
    let partition = |name: &str, pkey: &str, pods: &[&str]| {
        let members: Vec<String> =
            pods.iter().map(|pod| format!("{}=full", port_guid(pod, "net1"))).collect();
        format!("{name}={pkey}, indx0, ipoib : {};", members.join(", "))
    };
    let lines = [
        "Default=0x7fff, ipoib : ALL=limited, SELF=full;".to_owned(),
        partition("readers", "0x1", &["reader-1", "reader-2"]),
        partition("strangers", "0x2", &["stranger"]),
    ];
    exec_on(&nodes[0], &format!("fabric-partitions '{}'", lines.join("' '"))).stdout_or_panic();
    for (name, key) in [("reader-1", "0x8001"), ("reader-2", "0x8001"), ("stranger", "0x8002")] {
        exec_eventually(name, 120, &format!("grep -qx {key} /sys/class/infiniband/*/ports/1/pkeys/0"));
    }

    exec_eventually("reader-2", 120, &format!("ping -q -c 2 -W 2 {server}"));
    let table = read_lat("reader-1", "reader-2", &server).expect("the readers read");
    print_past_harness(&format!("ib_read_lat between pods on {} and {}:\n{table}", nodes[0], nodes[1]));

    let ping = exec_in_pod("stranger", &format!("ping -q -c 3 -W 2 {server}"));
    assert!(!ping.ok, "the stranger reaches a reader by IPoIB: {}", ping.out);
    // The programs connect over the default network, so only the fabric can separate them.
    let (default, _) = first_ipv4(&pod_interface("reader-1", "eth0"));
    let verbs = read_lat("reader-1", "stranger", &default);
    assert!(verbs.is_err(), "the stranger reads a reader's memory: {verbs:?}");
    let table =
        read_lat("reader-1", "reader-2", &default).expect("the readers read over the default network, too");
    assert!(table.contains("t_typical"), "{table}");

    exec_on(&nodes[0], "fabric-partitions").stdout_or_panic();
    drop(objects);
    for node in &nodes {
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
        assert_eq!(exec_on(node, "rdma dev | wc -l").stdout_or_panic().trim(), "6", "RDMA devices of {node}");
    }
}
