//! Simulated virtual functions for pods, allocated through the kubelet.

use ferroband_cluster_tests::hardware::{SimulatedVfs, wait_allocatable};
use ferroband_cluster_tests::inspect::{first_ipv4, network_status, pod_interface};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, kubectl, kubectl_get, network_definition, node_names,
};
use serde_json::{Value, json};

const GUIDS: [&str; 2] = ["02:00:00:00:00:00:0a:01", "02:00:00:00:00:00:0a:02"];
/// Name of the GUID block with both.
const GUID_BLOCK: &str = "0200000000000a00";

fn pod(name: &str, node: &str, guid: &str) -> Value {
    let networks = json!([{"name": "functions", "infiniband-guid": guid}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/networks": networks.to_string()}},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "ferroband.lab/tools:1",
                "resources": {"limits": {"spidernet.io/lab_vf": "1"}},
            }],
        },
    })
}

/// Nodes that have claims in a GUID block. Other blocks may have claims of other scenarios.
fn claiming_nodes(block: &str) -> Vec<Value> {
    let all = kubectl_get(&["guidblocks"]);
    let blocks = all["items"].as_array().into_iter().flatten();
    let claims = blocks
        .filter(|item| item["metadata"]["name"] == block)
        .filter_map(|item| item["spec"]["claims"].as_object());
    claims.flat_map(|claims| claims.values().map(|claim| claim["node"].clone())).collect()
}

#[test]
fn guid_claims_of_a_removed_node_are_released() {
    let mut objects = TestObjects::default();
    let block_name = "0200000000000b00";
    let claim = |node: &str| json!({"node": node, "device": "0000:86:00.2"});
    let block = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "GuidBlock", "metadata": {"name": block_name},
        "spec": {"claims": {"1": claim("gone"), "2": claim("elsewhere")}},
    });
    objects.apply(&block.to_string());
    let of_gone = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "NodePartitions",
        "metadata": {"name": "gone"}, "spec": {"functions": {"0000:86:00.2": "02:00:00:00:00:00:0b:01"}}});
    // A deleted node is held for ten minutes, unless it was out of service. Without a label for its operating system no
    // daemon is scheduled to it.
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "off", "effect": "NoExecute"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gone"}, "spec": {"taints": [taint]}});
    objects.apply(&node.to_string());
    objects.apply(&of_gone.to_string());
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(claiming_nodes(block_name), [json!("gone"), json!("elsewhere")], "the Node exists");
    kubectl(&["delete", "node", "gone"]).stdout_or_panic();
    eventually("only the claims and the object of the removed node are gone", 60, || {
        let object =
            kubectl(&["get", "nodepartitions", "gone", "--ignore-not-found", "-o", "name"]).stdout_or_panic();
        let left = claiming_nodes(block_name);
        let released = object.is_empty() && left == [json!("elsewhere")];
        if released { Ok(()) } else { Err(format!("{object} {left:?}")) }
    });
}

#[test]
fn pod_gets_a_function_with_its_guid_and_releases_both() {
    let nodes = node_names();
    let _made: Vec<SimulatedVfs> = nodes[..2].iter().map(|node| SimulatedVfs::create(node, 4)).collect();
    let mut objects = TestObjects::default();
    let links = |node: &str| {
        exec_on(node, "ip -br link | awk '{print $1}' | grep '^ibs5f0v' | sort").stdout_or_panic()
    };
    let selectors = json!({"vendors": ["15b3"], "devices": ["1018"], "isRdma": true});
    let pool = json!({"resourceList": [{"resourcePrefix": "spidernet.io", "resourceName": "lab_vf", "selectors": selectors}]});
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "ferroband-devices", "namespace": "ferroband-system"},
            "data": {"config.json": pool.to_string()},
        })
        .to_string(),
    );
    let config = json!({"cniVersion": "1.0.0", "name": "functions", "type": "ib-sriov",
        "capabilities": {"infinibandGUID": true}, "ipam": {"type": "whereabouts", "range": "192.168.77.0/24"}});
    let mut network = network_definition("functions", &config);
    network["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": "spidernet.io/lab_vf"});
    objects.apply(&network.to_string());
    for node in &nodes[..2] {
        wait_allocatable(node, "spidernet.io/lab_vf", "4");
    }
    let before = links(&nodes[0]);
    assert_eq!(before.lines().count(), 4, "one interface per function: {before}");
    for (position, name) in ["vf-a", "vf-b"].into_iter().enumerate() {
        objects.apply(&pod(name, &nodes[position], GUIDS[position]).to_string());
    }
    for name in ["vf-a", "vf-b"] {
        let pod = objects.wait_ready(name, 120);
        let status = network_status(&pod);
        let entry =
            status.iter().find(|entry| entry["interface"] == "net1").unwrap_or_else(|| panic!("{status:?}"));
        assert_eq!(entry["device-info"]["type"], "pci", "{entry}");
        assert!(first_ipv4(&pod_interface(name, "net1")).0.starts_with("192.168.77."));
    }
    assert_eq!(links(&nodes[0]).lines().count(), before.lines().count() - 1, "one interface is in the pod");
    // sysfs prints GUIDs in groups of four digits.
    let guids =
        exec_on(&nodes[0], "cat /var/lib/ferroband/sim/sys/class/infiniband/*/node_guid").stdout_or_panic();
    assert!(guids.contains("0200:0000:0000:0a01"), "the function has the GUID: {guids}");
    let (there, _) = first_ipv4(&pod_interface("vf-b", "net1"));
    exec_in_pod("vf-a", &format!("ping -c 2 -w 20 -I net1 {there}")).stdout_or_panic();

    kubectl(&["delete", "pod", "vf-a", "vf-b", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("the function has its name back and no record is left", 60, || {
        // The name is restored first, then the GUID; the record is removed last.
        let now = links(&nodes[0]);
        let records = exec_on(&nodes[0], "ls /var/lib/ferroband/device 2>/dev/null; true").stdout_or_panic();
        if now == before && records.is_empty() { Ok(()) } else { Err(format!("{now}{records}")) }
    });

    // The pod is recreated on another node and requests the same GUID.
    objects.apply(&pod("vf-a", &nodes[1], GUIDS[0]).to_string());
    objects.wait_ready("vf-a", 120);
    let claims = claiming_nodes(GUID_BLOCK);
    assert!(claims.contains(&json!(nodes[1])), "{claims:?}");
    kubectl(&["delete", "pod", "vf-a", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("no GUID of the block is claimed", 60, || {
        let left = claiming_nodes(GUID_BLOCK);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}
