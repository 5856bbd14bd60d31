//! Virtual functions for pods, through the kubelet: simulated, but all the way.

use ferroband_cluster_tests::hardware::{SimulatedVfs, wait_allocatable};
use ferroband_cluster_tests::inspect::{first_ipv4, network_status, pod_interface};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, kubectl, kubectl_get, network_definition, node_names,
};
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

/// The nodes that have GUIDs claimed.
fn claims() -> Vec<Value> {
    let all = kubectl_get(&["guidblocks"]);
    let claims = all["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|granule| granule["spec"]["claims"].as_object());
    claims.flat_map(|claims| claims.values().map(|claim| claim["node"].clone())).collect()
}

#[test]
fn guids_that_a_node_had_claimed_are_free_when_it_is_gone() {
    let mut objects = TestObjects::default();
    let claim = |node: &str| json!({"node": node, "device": "0000:86:00.2"});
    let granule = json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "GuidBlock", "metadata": {"name": "0200000000000b00"},
        "spec": {"claims": {"1": claim("gone"), "2": claim("elsewhere")}},
    });
    objects.apply(&granule.to_string());
    let of_gone = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "NodePartitions",
        "metadata": {"name": "gone"}, "spec": {"functions": {"0000:86:00.2": "02:00:00:00:00:00:0b:01"}}});
    objects.apply(&of_gone.to_string());
    eventually("its claims and its object are gone, and nobody else's", 60, || {
        let object =
            kubectl(&["get", "nodepartitions", "gone", "--ignore-not-found", "-o", "name"]).stdout_or_panic();
        let left = claims();
        let so = object.is_empty() && left == [json!("elsewhere")];
        if so { Ok(()) } else { Err(format!("{object} {left:?}")) }
    });
}

#[test]
fn a_pod_that_asks_for_a_function_gets_its_interface_with_the_guid_and_gives_it_back() {
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
    assert_eq!(before.lines().count(), 4, "one interface a function: {before}");
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
    assert_eq!(links(&nodes[0]).lines().count(), before.lines().count() - 1, "one is in the pod");
    // sysfs writes it in groups of four digits.
    let guids =
        exec_on(&nodes[0], "cat /var/lib/ferroband/sim/sys/class/infiniband/*/node_guid").stdout_or_panic();
    assert!(guids.contains("0200:0000:0000:0a01"), "the function took the GUID on: {guids}");
    let (there, _) = first_ipv4(&pod_interface("vf-b", "net1"));
    exec_in_pod("vf-a", &format!("ping -c 2 -w 20 -I net1 {there}")).stdout_or_panic();

    kubectl(&["delete", "pod", "vf-a", "vf-b", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("the function is back under its name, and no record is left", 60, || {
        // Its name comes back first, its own GUID and the end of its record later.
        let now = links(&nodes[0]);
        let held = exec_on(&nodes[0], "ls /var/lib/ferroband/device 2>/dev/null; true").stdout_or_panic();
        if now == before && held.is_empty() { Ok(()) } else { Err(format!("{now}{held}")) }
    });

    // The pod may come back on another node, and asks for the GUID it had.
    objects.apply(&pod("vf-a", &nodes[1], GUIDS[0]).to_string());
    objects.wait_ready("vf-a", 120);
    assert!(claims().contains(&json!(nodes[1])), "{:?}", claims());
    kubectl(&["delete", "pod", "vf-a", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("nothing is claimed any more", 60, || {
        let left = claims();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}
