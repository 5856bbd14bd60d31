//! Resources of the device plugin on a real kubelet.

use ferroband_cluster_tests::{Objects, eventually, get, inside, nodes};
use serde_json::json;

/// The amount of a resource that the node can give.
fn allocatable(node: &str, resource: &str) -> String {
    let node = get(&["node", node]);
    node["status"]["allocatable"][resource].as_str().unwrap_or("absent").to_string()
}

#[test]
fn a_shared_resource_appears_with_its_maximum_and_gives_its_devices_alone() {
    let (mut objects, node) = (Objects::default(), nodes()[0].clone());
    let config = json!({"configList": [{
        "resourceName": "hca_shared", "rdmaHcaMax": 10, "selectors": {"vendors": ["15b3"], "deviceIDs": ["1017"]},
    }]});
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ferroband-devices", "namespace": "ferroband-system"},
            "data": {"shared.json": config.to_string()},
        })
        .to_string(),
    );
    eventually("rdma/hca_shared: 10", 120, || match allocatable(&node, "rdma/hca_shared") {
        amount if amount == "10" => Ok(()),
        amount => Err(amount),
    });
    assert_eq!(allocatable(&node, "jarvice.com/rdma"), "1");
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sharer"},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "c", "image": "ferroband.lab/tools:1",
                    "resources": {"limits": {"rdma/hca_shared": "1"}},
                }],
            },
        })
        .to_string(),
    );
    objects.running("sharer", 60);
    let mut files: Vec<String> =
        inside("sharer", "ls /dev/infiniband").good().split_whitespace().map(str::to_string).collect();
    files.sort();
    // Neither umad nor issm: with them a pod could rewrite the fabric.
    assert_eq!(files, ["rdma_cm", "uverbs0"]);
    inside("sharer", "exec 3<>/dev/infiniband/uverbs0").good();
}
