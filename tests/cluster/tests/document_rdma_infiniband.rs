//! Document 001, RDMA with InfiniBand: SR-IOV functions and IPoIB interfaces as the pods' default network.

use ferroband_cluster_tests::hardware::allocatable;
use ferroband_cluster_tests::inspect::{first_ipv4, pod_interface};
use ferroband_cluster_tests::{
    RDMA_INFINIBAND_EXAMPLES, TestObjects, document_manifests, eventually, exec_in_pod, kubectl, node_names,
    note_vmlab_only, start_own_lab, wait_network_definition, wait_pods_ready,
};
use serde_json::Value;
use std::net::Ipv4Addr;

const RESOURCE: &str = "spidernet.io/mellanoxibsriov";

/// Manifests of the document: policy, network and pods for SR-IOV; network and pods for IPoIB.
fn document() -> [String; 5] {
    document_manifests("001", &RDMA_INFINIBAND_EXAMPLES).try_into().expect("five commands")
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().expect("a pod has a name").to_string()
}

/// The pod IP, which must be in the document's pool and on eth0.
fn pool_address(pod: &Value) -> String {
    let ip = pod["status"]["podIP"].as_str().expect("a running pod has an address");
    let address: Ipv4Addr = ip.parse().expect("IPv4");
    let (first, last) = (Ipv4Addr::new(172, 91, 0, 100), Ipv4Addr::new(172, 91, 0, 120));
    assert!((first..=last).contains(&address), "{ip} is not in the document's pool");
    assert_eq!(first_ipv4(&pod_interface(&name(pod), "eth0")), (ip.to_string(), 16));
    ip.to_string()
}

/// Asserts that every pod reaches every other.
fn assert_all_reach_each_other(pods: &[Value]) {
    for from in pods {
        for to in pods {
            if name(from) != name(to) {
                exec_in_pod(&name(from), &format!("ping -c 1 -w 15 {}", pool_address(to))).stdout_or_panic();
            }
        }
    }
}

#[test]
fn sriov_pods_of_the_document_reach_each_other() {
    start_own_lab(&["--nodes", "3"]);
    let [policy, network, pods, _, _] = document();
    let mut objects = TestObjects::default();
    objects.apply(&policy);
    for node in node_names() {
        eventually("twelve functions are allocatable", 90, || match allocatable(&node, RESOURCE).as_str() {
            "12" => Ok(()),
            other => Err(format!("{node}: {other}")),
        });
    }
    objects.apply(&network);
    let config = wait_network_definition("kube-system", "ib-sriov", 30);
    assert_eq!(config["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"], RESOURCE);

    objects.apply(&pods);
    let running = wait_pods_ready("app=ib-sriov", node_names().len(), 120);
    let mut addresses: Vec<_> = running.iter().map(pool_address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), running.len(), "all addresses are distinct");
    for pod in &running {
        let devices = exec_in_pod(&name(pod), "ls /dev/infiniband").stdout_or_panic();
        assert!(devices.contains("uverbs"), "the pod has the function's RDMA device: {devices}");
        // The pod's command lists both, so it must have a log.
        kubectl(&["logs", &name(pod)]).stdout_or_panic();
    }
    assert_all_reach_each_other(&running);
    note_vmlab_only("001: `rdma link` in the pod shows its own device, ACTIVE");
    note_vmlab_only("001: `ib_read_lat` between the pods");

    drop(objects);
    for node in node_names() {
        eventually("no functions are allocatable", 120, || match allocatable(&node, RESOURCE).as_str() {
            "absent" | "0" => Ok(()),
            other => Err(format!("{node}: {other}")),
        });
    }
}

#[test]
fn ipoib_pods_of_the_document_reach_each_other() {
    start_own_lab(&["--nodes", "3"]);
    let [_, _, _, network, pods] = document();
    let mut objects = TestObjects::default();
    objects.apply(&network);
    let config = wait_network_definition("kube-system", "ipoib", 30);
    let text = config["spec"]["config"].as_str().expect("a configuration").to_string();
    assert!(text.contains("\"ipoib\"") && text.contains("ibs5f0"), "the ipoib section is rendered: {text}");

    objects.apply(&pods);
    let running = wait_pods_ready("app=ipoib", node_names().len(), 120);
    assert_all_reach_each_other(&running);
    for pod in &running {
        let devices = exec_in_pod(&name(pod), "ls /dev/infiniband 2>/dev/null; true").stdout_or_panic();
        assert_eq!(devices, "", "an IPoIB pod has no RDMA device");
    }
}
