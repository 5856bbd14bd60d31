//! Virtual functions on both nodes, and pods with them.

use crate::{POD_TIMEOUT, exec_eventually, pod_manifest};
use ferroband_cluster_tests::{TestObjects, eventually, exec_in_pod, exec_on, kubectl_get};
use serde_json::json;

/// Resource name of the virtual functions in the documents.
pub const RESOURCE: &str = "spidernet.io/mellanoxibsriov";

/// Creates `count` virtual functions of the first adapter of each node and waits until they are allocatable.
#[track_caller]
pub fn create_vfs(objects: &mut TestObjects, nodes: &[String], count: usize) {
    for node in nodes {
        exec_on(node, &format!("vfs {count}")).stdout_or_panic();
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
        eventually(&format!("{RESOURCE} on {node}"), POD_TIMEOUT, || {
            let node = kubectl_get(&["node", node]);
            let amount = &node["status"]["allocatable"][RESOURCE];
            if amount.as_str() == Some(&*count.to_string()) { Ok(()) } else { Err(amount.to_string()) }
        });
    }
}

/// An ib-sriov network with addresses of `range`.
pub fn vf_network(name: &str, range: &str) -> String {
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
pub fn vf_pod(name: &str, node: &str, network: &str) -> String {
    pod_manifest(name, node, &format!("k8s.v1.cni.cncf.io/networks: {network}"), &format!("{RESOURCE}: 1"))
}

/// The port GUID of a pod's interface, in opensm's format.
#[track_caller]
pub fn port_guid(pod: &str, interface: &str) -> String {
    let address = exec_in_pod(pod, &format!("cat /sys/class/net/{interface}/address")).stdout_or_panic();
    format!("0x{}", address.trim().split(':').skip(12).collect::<String>())
}

/// The name of a pod's only RDMA device.
#[track_caller]
pub fn only_rdma_device(pod: &str) -> String {
    let output = exec_in_pod(pod, "ls /sys/class/infiniband").stdout_or_panic();
    let names: Vec<&str> = output.split_whitespace().collect();
    assert_eq!(names.len(), 1, "{pod} sees {names:?}");
    names[0].to_owned()
}

/// Asserts that the pod sees only its own RDMA device (ACTIVE), device files and these interfaces, one of them
/// InfiniBand.
#[track_caller]
pub fn assert_only_own_device(pod: &str, interfaces: &[&str]) {
    let own = only_rdma_device(pod);
    exec_eventually(pod, 120, "rdma link | grep 'state ACTIVE physical_state LINK_UP'");
    let rdma = exec_in_pod(pod, "rdma dev").stdout_or_panic();
    assert_eq!(rdma.lines().count(), 1, "{rdma}");
    assert!(rdma.contains(&own), "{rdma}");
    let verbs = exec_in_pod(pod, "ibv_devinfo 2>/dev/null").stdout_or_panic();
    assert_eq!(verbs.matches("hca_id:").count(), 1, "{verbs}");
    assert!(verbs.contains(&own) && verbs.contains("PORT_ACTIVE"), "{verbs}");
    let links = exec_in_pod(pod, "ip -d -o link").stdout_or_panic();
    let mut names: Vec<&str> = links.lines().filter_map(|line| line.split([':', '@']).nth(1)).collect();
    names.iter_mut().for_each(|name| *name = name.trim());
    // Sorted by name: a moved interface keeps its index if possible, so the order is arbitrary.
    names.sort_unstable();
    let mut expected = interfaces.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected, "{links}");
    assert_eq!(links.matches("link/infiniband").count(), 1, "{links}");
    let files = exec_in_pod(pod, "ls /dev/infiniband").stdout_or_panic();
    assert_eq!(files.matches("uverbs").count(), 1, "{files}");
}
