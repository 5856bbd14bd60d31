//! Virtual functions for pods, through the kubelet: simulated, but all the way.

use ferroband_cluster_tests::evidence::{interface, ipv4, network_status};
use ferroband_cluster_tests::hardware::{Functions, offered};
use ferroband_cluster_tests::{Objects, definition, eventually, inside, kubectl, nodes, on};
use serde_json::{Value, json};

const GUIDS: [&str; 2] = ["02:00:00:00:00:00:0a:01", "02:00:00:00:00:00:0a:02"];

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

#[test]
fn a_pod_that_asks_for_a_function_gets_its_interface_with_the_guid_and_gives_it_back() {
    let nodes = nodes();
    let _made: Vec<Functions> = nodes[..2].iter().map(|node| Functions::make(node, 4)).collect();
    let mut objects = Objects::default();
    let links = |node: &str| on(node, "ip -br link | awk '{print $1}' | grep '^ibs5f0v' | sort").good();
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
    let mut network = definition("functions", &config);
    network["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": "spidernet.io/lab_vf"});
    objects.apply(&network.to_string());
    for node in &nodes[..2] {
        offered(node, "spidernet.io/lab_vf", "4");
    }
    let before = links(&nodes[0]);
    assert_eq!(before.lines().count(), 4, "one interface a function: {before}");
    for (position, name) in ["vf-a", "vf-b"].into_iter().enumerate() {
        objects.apply(&pod(name, &nodes[position], GUIDS[position]).to_string());
    }
    for name in ["vf-a", "vf-b"] {
        let pod = objects.running(name, 120);
        let status = network_status(&pod);
        let entry =
            status.iter().find(|entry| entry["interface"] == "net1").unwrap_or_else(|| panic!("{status:?}"));
        assert_eq!(entry["device-info"]["type"], "pci", "{entry}");
        assert!(ipv4(&interface(name, "net1")).0.starts_with("192.168.77."));
    }
    assert_eq!(links(&nodes[0]).lines().count(), before.lines().count() - 1, "one is in the pod");
    // sysfs writes it in groups of four digits.
    let guids = on(&nodes[0], "cat /var/lib/ferroband/sim/sys/class/infiniband/*/node_guid").good();
    assert!(guids.contains("0200:0000:0000:0a01"), "the function took the GUID on: {guids}");
    let (there, _) = ipv4(&interface("vf-b", "net1"));
    inside("vf-a", &format!("ping -c 2 -w 20 -I net1 {there}")).good();

    kubectl(&["delete", "pod", "vf-a", "vf-b", "--wait", "--timeout=60s"]).good();
    eventually("the function is back under its name, and no record is left", 60, || {
        // Its name comes back first, its own GUID and the end of its record later.
        let now = links(&nodes[0]);
        let held = on(&nodes[0], "ls /var/lib/ferroband/device 2>/dev/null; true").good();
        if now == before && held.is_empty() { Ok(()) } else { Err(format!("{now}{held}")) }
    });
}
