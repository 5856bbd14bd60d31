//! IPoIB pods on two kernels.

use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::{TestObjects, exec_in_pod, exec_on, node_names};
use ferroband_vmlab_tests::{POD_TIMEOUT, exec_eventually, kernel_complaints, pod_manifest};
use serde_json::Value;

fn network(name: &str, range: &str) -> String {
    let config = serde_json::json!({
        "cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": "ibs5f0",
        "ipam": {"type": "whereabouts", "range": range},
    });
    format!(
        "{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {{name: {name}}}, \
         spec: {{config: '{config}'}}}}"
    )
}

fn links(pod: &str) -> Vec<Value> {
    let output = exec_in_pod(pod, "ip -d -j link").stdout_or_panic();
    serde_json::from_str(&output).expect("ip prints JSON")
}

#[test]
fn ipoib_pods_on_two_kernels_ping_and_leave_nothing_behind() {
    let nodes = node_names();
    let before: Vec<String> =
        nodes.iter().map(|n| exec_on(n, "ip -br link | cut -d' ' -f1 | sort").stdout_or_panic()).collect();
    {
        let mut objects = TestObjects::default();
        objects.apply(&network("vm-ipoib", "10.91.0.0/24"));
        for (name, node) in ["one", "two"].iter().zip(&nodes) {
            objects.apply(&pod_manifest(name, node, "k8s.v1.cni.cncf.io/networks: vm-ipoib", ""));
        }
        for name in ["one", "two"] {
            objects.wait_ready(name, POD_TIMEOUT);
        }
        let (there, _) = first_ipv4(&pod_interface("two", "net1"));
        exec_eventually("one", 120, &format!("ping -q -c 3 -W 3 {there}"));
        let links = links("one");
        let net1 = links.iter().find(|l| l["ifname"] == "net1").expect("net1");
        assert_eq!(net1["linkinfo"]["info_kind"], "ipoib", "{net1}");
        assert_eq!(net1["linkinfo"]["info_data"]["key"], "0xffff", "{net1}");
        assert_eq!(net1["link_type"], "infiniband", "{net1}");
        assert_eq!(links.len(), 3, "lo, eth0 and net1, nothing of the node's: {links:?}");
    }
    for (node, before) in nodes.iter().zip(before) {
        assert_eq!(
            exec_on(node, "ip -br link | cut -d' ' -f1 | sort").stdout_or_panic(),
            before,
            "links of {node}"
        );
        assert_eq!(kernel_complaints(node), "", "kernel of {node}");
    }
}
