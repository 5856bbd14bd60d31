//! opensm on a node, as document 004 requires, with the kernel's MADs and the ports' real P_Key tables. A pod in
//! another partition reaches no other pod.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::opensm_mounts::OpensmMounts;
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, kubectl, kubectl_get, network_definition, node_names,
};
use ferroband_vmlab_tests::perftest::read_lat;
use ferroband_vmlab_tests::sriov::{RESOURCE, create_vfs, vf_pod};
use ferroband_vmlab_tests::{POD_TIMEOUT, exec_eventually, kernel_complaints};
use serde_json::json;

const LABEL: &str = "node-restriction.kubernetes.io/ferroband-subnet-manager";

/// A NetworkAttachmentDefinition with a P_Key.
fn network(name: &str, pkey: &str) -> String {
    let config = json!({
        "cniVersion": "1.0.0", "name": name, "type": "ib-sriov", "pkey": pkey, "ibKubernetesEnabled": true,
        "link_state": "enable", "ipam": {"type": "whereabouts", "range": "10.94.0.0/24"},
    });
    let mut network = network_definition(name, &config);
    network["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": RESOURCE});
    network.to_string()
}

/// Replaces the node's opensm by the node daemon's; Drop restores it.
struct NodeSubnetManager<'a>(&'a str);

impl<'a> NodeSubnetManager<'a> {
    #[track_caller]
    fn start_on(node: &'a str) -> Self {
        exec_on(node, ". /lab/guest/fabric.sh; stop_opensm").stdout_or_panic();
        kubectl(&["label", "node", node, &format!("{LABEL}=mlx5_0")]).stdout_or_panic();
        Self(node)
    }
}

impl Drop for NodeSubnetManager<'_> {
    fn drop(&mut self) {
        kubectl(&["label", "node", self.0, &format!("{LABEL}-")]);
        exec_on(
            self.0,
            "for n in $(seq 60); do pidof opensm || break; sleep 1; done; . /lab/guest/fabric.sh; start_opensm",
        );
    }
}

#[test]
fn opensm_of_the_node_daemon_separates_tenants() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    create_vfs(&mut objects, &nodes, 4);
    let surroundings = OpensmMounts::apply(&[]);
    let manager = NodeSubnetManager::start_on(&nodes[0]);
    eventually("opensm runs", POD_TIMEOUT, || {
        let host = kubectl_get(&["subnetmanagerhosts"])["items"][0]["status"].clone();
        if host["state"] == "running" { Ok(()) } else { Err(host.to_string()) }
    });
    for (name, pkey) in [("red", "0x3e8"), ("blue", "0x7d0")] {
        objects.apply(&network(name, pkey));
    }
    for (name, node, network) in [("red-1", 0, "red"), ("red-2", 1, "red"), ("blue-1", 1, "blue")] {
        objects.apply(&vf_pod(name, &nodes[node], network));
    }
    for (name, key) in [("red-1", "0x83e8"), ("red-2", "0x83e8"), ("blue-1", "0x87d0")] {
        objects.wait_ready(name, POD_TIMEOUT);
        // The pod started after it was in its partition.
        assert_eq!(
            exec_in_pod(name, "cat /sys/class/infiniband/*/ports/1/pkeys/0").stdout_or_panic().trim(),
            key,
            "{name}"
        );
    }
    let (there, _) = first_ipv4(&pod_interface("red-1", "net1"));
    exec_eventually("red-2", 120, &format!("ping -q -c 2 -W 2 {there}"));
    let ping = exec_in_pod("blue-1", &format!("ping -q -c 3 -W 2 {there}"));
    assert!(!ping.ok, "another tenant reaches the pod over IPoIB: {}", ping.out);
    let (default, _) = first_ipv4(&pod_interface("red-1", "eth0"));
    read_lat("red-1", "red-2", &default).expect("one tenant's pods read each other's memory");
    let verbs = read_lat("red-1", "blue-1", &default);
    assert!(verbs.is_err(), "another tenant reads the pod's memory: {verbs:?}");
    drop(objects);
    drop(manager);
    drop(surroundings);
    for node in &nodes {
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
    }
}
