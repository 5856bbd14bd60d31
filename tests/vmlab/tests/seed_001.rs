//! The document about RDMA with InfiniBand as printed, where it can be played to its end: adapters, exclusive mode, two
//! nodes, `ib_read_lat`.

use ferroband_cluster_tests::evidence::{interface, ipv4};
use ferroband_cluster_tests::hardware::allocatable;
use ferroband_cluster_tests::{
    Objects, RDMA_WITH_INFINIBAND, applied, eventually, inside, nodes, of_label, on,
};
use ferroband_vmlab_tests::reading::read_lat;
use ferroband_vmlab_tests::sriov::{RESOURCE, own_device_only};
use ferroband_vmlab_tests::{POD, complaints, say, succeeds_in};
use serde_json::Value;

/// What the document applies: policy, network, pods; the network of its second half, and its pods.
fn document() -> [String; 5] {
    applied("001", &RDMA_WITH_INFINIBAND).try_into().expect("five commands")
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().expect("a pod has a name").to_string()
}

#[track_caller]
fn healthy(nodes: &[String]) {
    for node in nodes {
        assert_eq!(complaints(node), "", "kernel of {node}");
    }
}

#[test]
fn seed_001_sriov_pods_on_two_nodes_read_each_others_memory() {
    let nodes = nodes();
    for node in &nodes {
        let mode = on(node, "rdma system").good();
        assert!(mode.starts_with("netns exclusive"), "{node}: {mode}");
    }
    let [policy, network, pods, _, _] = document();
    let mut objects = Objects::default();
    objects.apply(&policy);
    for node in &nodes {
        eventually("the node offers twelve functions", 2 * POD, || match &*allocatable(node, RESOURCE) {
            "12" => Ok(()),
            other => Err(format!("{node}: {other}")),
        });
    }
    objects.apply(&network);
    objects.apply(&pods);
    let running = of_label("app=ib-sriov", nodes.len(), POD);
    let (server, client) = (name(&running[0]), name(&running[1]));
    for pod in [&server, &client] {
        // veth0 is the coordinator's way to the node, for probes and services.
        own_device_only(pod, &["lo", "eth0", "veth0"]);
    }
    let (address, _) = ipv4(&interface(&server, "eth0"));
    succeeds_in(&client, 120, &format!("ping -q -c 2 -W 3 {address}"));
    let table = read_lat(&server, &client, &address).expect("the pods read each other's memory");
    assert!(table.contains("t_typical"), "{table}");
    say(&format!(
        "document 001, ib_read_lat from {client} on {} to {server} on {}:\n{table}",
        nodes[1], nodes[0]
    ));
    drop(objects);
    for node in &nodes {
        eventually("the node is as it was", 2 * POD, || match &*on(node, "rdma dev | wc -l").good() {
            "2\n" => Ok(()),
            other => Err(format!("{node}: {other} RDMA devices")),
        });
    }
    healthy(&nodes);
}

#[test]
fn seed_001_ipoib_pods_on_two_nodes_reach_each_other() {
    let nodes = nodes();
    let [_, _, _, network, pods] = document();
    let mut objects = Objects::default();
    objects.apply(&network);
    objects.apply(&pods);
    let running = of_label("app=ipoib", nodes.len(), POD);
    let (one, two) = (name(&running[0]), name(&running[1]));
    let link = inside(&one, "ip -d link show dev eth0").good();
    assert!(link.contains("link/infiniband") && link.contains("ipoib pkey 0xffff"), "{link}");
    let (address, _) = ipv4(&interface(&two, "eth0"));
    let said = succeeds_in(&one, 120, &format!("ping -c 3 -W 3 {address}"));
    say(&format!("document 001, IPoIB pods on {} and {}:\n{said}", nodes[0], nodes[1]));
    drop(objects);
    healthy(&nodes);
}
