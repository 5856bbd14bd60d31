//! Virtual functions on both nodes, and pods that have them.

use crate::{POD, pod};
use ferroband_cluster_tests::{Objects, eventually, get, inside, on};
use serde_json::json;

/// What the documents call the virtual functions' resource.
pub const RESOURCE: &str = "spidernet.io/mellanoxibsriov";

/// `count` virtual functions of the first adapter of each node, as a resource.
#[track_caller]
pub fn functions(objects: &mut Objects, nodes: &[String], count: usize) {
    for node in nodes {
        on(node, &format!("vfs {count}")).good();
    }
    let pool = json!({"resourceList": [{
        "resourceName": "mellanoxibsriov", "resourcePrefix": "spidernet.io",
        "selectors": {"vendors": ["15b3"], "devices": ["1018"], "isRdma": true},
    }]});
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ferroband-devices", "namespace": "ferroband-system"},
            "data": {"functions.json": pool.to_string()},
        })
        .to_string(),
    );
    for node in nodes {
        eventually(&format!("{RESOURCE} on {node}"), POD, || {
            let node = get(&["node", node]);
            let seen = &node["status"]["allocatable"][RESOURCE];
            if seen.as_str() == Some(&*count.to_string()) { Ok(()) } else { Err(seen.to_string()) }
        });
    }
}

/// A network of virtual functions with addresses of `range`.
pub fn network(name: &str, range: &str) -> String {
    let config = json!({
        "cniVersion": "0.3.1", "type": "ib-sriov", "name": name, "link_state": "enable",
        "ipam": {"type": "whereabouts", "range": range},
    });
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/resourceName": RESOURCE}},
        "spec": {"config": config.to_string()},
    })
    .to_string()
}

/// A pod with one virtual function.
pub fn holder(name: &str, node: &str, network: &str) -> String {
    pod(name, node, &format!("k8s.v1.cni.cncf.io/networks: {network}"), &format!("{RESOURCE}: 1"))
}

/// The port GUID of a pod's interface, as opensm writes it.
#[track_caller]
pub fn guid(pod: &str) -> String {
    let address = inside(pod, "cat /sys/class/net/net1/address").good();
    format!("0x{}", address.trim().split(':').skip(12).collect::<String>())
}

/// The name of a pod's only RDMA device.
#[track_caller]
pub fn device(pod: &str) -> String {
    let said = inside(pod, "ls /sys/class/infiniband").good();
    let names: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(names.len(), 1, "{pod} sees {names:?}");
    names[0].to_owned()
}
