//! Virtual functions on both nodes, and pods that have them.

use crate::{POD, pod, succeeds_in};
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
pub fn guid(pod: &str, interface: &str) -> String {
    let address = inside(pod, &format!("cat /sys/class/net/{interface}/address")).good();
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

/// The pod sees one RDMA device, ACTIVE, its own files and these interfaces, whoever asks: nothing of the node's or of
/// other pods. One of the interfaces is an InfiniBand one.
#[track_caller]
pub fn own_device_only(pod: &str, interfaces: &[&str]) {
    let own = device(pod);
    succeeds_in(pod, 120, "rdma link | grep 'state ACTIVE physical_state LINK_UP'");
    let rdma = inside(pod, "rdma dev").good();
    assert_eq!(rdma.lines().count(), 1, "{rdma}");
    assert!(rdma.contains(&own), "{rdma}");
    let verbs = inside(pod, "ibv_devinfo 2>/dev/null").good();
    assert_eq!(verbs.matches("hca_id:").count(), 1, "{verbs}");
    assert!(verbs.contains(&own) && verbs.contains("PORT_ACTIVE"), "{verbs}");
    let links = inside(pod, "ip -d -o link").good();
    let mut names: Vec<&str> = links.lines().filter_map(|line| line.split([':', '@']).nth(1)).collect();
    names.iter_mut().for_each(|name| *name = name.trim());
    // Numbers tell nothing: an interface that moved in keeps the one it had, if it can.
    names.sort_unstable();
    let mut wanted = interfaces.to_vec();
    wanted.sort_unstable();
    assert_eq!(names, wanted, "{links}");
    assert_eq!(links.matches("link/infiniband").count(), 1, "{links}");
    let files = inside(pod, "ls /dev/infiniband").good();
    assert_eq!(files.matches("uverbs").count(), 1, "{files}");
}
