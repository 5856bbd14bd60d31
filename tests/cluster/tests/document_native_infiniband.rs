//! Document 004, native InfiniBand: adapters are switched to InfiniBand, provisioned, selected by link type, and
//! attached to pods as additional interfaces. It prints no YAML; `examples/infiniband-policy` has the objects that it
//! describes.

use ferroband_cluster_tests::hardware::{allocatable, apply_device_config, wait_allocatable};
use ferroband_cluster_tests::inspect::{first_ipv4, network_status, pod_interface};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, kubectl_get, kubectl_with, node_names, read_example, reboot_node,
    start_own_lab, wait_network_definition,
};
use serde_json::{Value, json};

const RESOURCE: &str = "spidernet.io/infiniband";

fn state(node: &str) -> Value {
    kubectl_get(&["-n", "ferroband-system", "sriovnetworknodestates", node])
}

/// The adapter's link type in the node state.
fn link_type(node: &str) -> String {
    state(node)["status"]["interfaces"][0]["linkType"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn adapter_is_switched_to_infiniband_and_a_pod_gets_a_function() {
    start_own_lab(&["--nodes", "2", "--profile", "vpi"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    for node in &nodes {
        eventually("the node state shows the adapter", 60, || match link_type(node).as_str() {
            "ETH" => Ok(()),
            other => Err(other.to_owned()),
        });
    }
    assert_selected_by_link_type(&nodes, ["1", "0"]);

    // Link type `infiniBand` or `ib`: the firmware is configured, and the node state requests a reboot.
    objects.apply(&read_example("infiniband-policy/policy.yaml"));
    for node in &nodes {
        eventually("the node requests a reboot", 90, || {
            let status = state(node)["status"].to_string();
            if status.contains("RebootRequired") && status.contains("allowReboot") {
                Ok(())
            } else {
                Err(status)
            }
        });
        // Until then the state is no failure, and no function of the Ethernet port is offered.
        assert_eq!(state(node)["status"]["syncStatus"], "InProgress");
        let offered = kubectl_get(&["node", node])["status"]["allocatable"][RESOURCE].clone();
        assert!(offered.is_null() || offered == "0", "{offered}");
        reboot_node(node);
    }
    for node in &nodes {
        eventually("the adapter is InfiniBand", 120, || match link_type(node).as_str() {
            "IB" => Ok(()),
            _ => Err(state(node)["status"].to_string()),
        });
        // Provisioned and advertised as a node resource.
        wait_allocatable(node, RESOURCE, "4");
        eventually("the node state is synced", 60, || match state(node)["status"]["syncStatus"].as_str() {
            Some("Succeeded") => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    // No longer Ethernet; an adapter with virtual functions is advertised only through them.
    assert_selected_by_link_type(&nodes, ["0", "0"]);

    // A NetworkAttachmentDefinition with the plugin `ib-sriov`.
    objects.apply(&read_example("infiniband-policy/network.yaml"));
    let rendered = wait_network_definition("default", "infiniband", 60);
    let config: Value =
        serde_json::from_str(rendered["spec"]["config"].as_str().unwrap_or_default()).expect("JSON");
    assert_eq!((&config["type"], &config["link_state"]), (&json!("ib-sriov"), &json!("enable")), "{config}");
    assert_eq!(rendered["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"], RESOURCE);

    // A pod with it as an additional interface.
    let pod: String = read_example("infiniband-policy/pod.yaml");
    // The webhook fails open. Both replicas were on the nodes that were rebooted, and a pod that is created before one
    // of them answers would get no function.
    eventually("the webhook adds the resource", 120, || {
        let admitted = kubectl_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod);
        if admitted.out.contains(RESOURCE) { Ok(()) } else { Err(admitted.err) }
    });
    objects.apply(&pod).apply(&pod.replace("name: infiniband\n", "name: infiniband-2\n"));
    let pods = ["infiniband", "infiniband-2"].map(|pod| objects.wait_ready(pod, 120));
    for pod in &pods {
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        assert_eq!(limits[RESOURCE], "1", "{limits}");
        let status = network_status(pod);
        let entry = status.iter().find(|entry| entry["interface"] == "net1").expect("its status");
        assert!(entry["device-info"]["pci"]["pci-address"].is_string(), "{entry}");
    }
    exec_in_pod("infiniband", "ip link show dev eth0").stdout_or_panic();
    let (there, _) = first_ipv4(&pod_interface("infiniband-2", "net1"));
    exec_in_pod("infiniband", &format!("ping -c 2 -w 20 -I net1 {there}")).stdout_or_panic();
    objects.leave_to_lab_teardown();
}

/// Asserts how many adapters the device plugin selects with link types `ether` and `infiniband`.
#[track_caller]
fn assert_selected_by_link_type(nodes: &[String], amounts: [&str; 2]) {
    let mut objects = TestObjects::default();
    let of = |kind: &str| {
        json!({"resourcePrefix": "seed.io", "resourceName": format!("of_{kind}"),
            "selectors": {"devices": ["101b"], "linkTypes": [kind]}})
    };
    apply_device_config(
        &mut objects,
        &[("link-types.json", json!({"resourceList": [of("ether"), of("infiniband")]}))],
    );
    for node in nodes {
        eventually(&format!("{amounts:?} of link types ether, infiniband on {node}"), 60, || {
            let observed =
                ["ether", "infiniband"].map(|kind| allocatable(node, &format!("seed.io/of_{kind}")));
            let observed = observed.map(|amount| if amount == "absent" { "0".to_owned() } else { amount });
            if observed == amounts { Ok(()) } else { Err(format!("{observed:?}")) }
        });
    }
}
