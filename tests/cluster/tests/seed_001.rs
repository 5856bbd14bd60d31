//! The document about RDMA with InfiniBand: SR-IOV functions and IPoIB interfaces as the pods' default network.

use ferroband_cluster_tests::evidence::{interface, ipv4};
use ferroband_cluster_tests::hardware::allocatable;
use ferroband_cluster_tests::{
    Objects, RDMA_WITH_INFINIBAND, applied, eventually, inside, kubectl, needs_kernel, nodes, of_label,
    own_lab, rendered,
};
use serde_json::Value;
use std::net::Ipv4Addr;

const RESOURCE: &str = "spidernet.io/mellanoxibsriov";

/// What the document applies: policy, network, pods; the network of its second half, and its pods.
fn document() -> [String; 5] {
    applied("001", &RDMA_WITH_INFINIBAND).try_into().expect("five commands")
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().expect("a pod has a name").to_string()
}

/// The pod's address, which must be the document's pool's and the pod's own by Kubernetes' account, too.
fn pool_address(pod: &Value) -> String {
    let ip = pod["status"]["podIP"].as_str().expect("a running pod has an address");
    let address: Ipv4Addr = ip.parse().expect("IPv4");
    let (first, last) = (Ipv4Addr::new(172, 91, 0, 100), Ipv4Addr::new(172, 91, 0, 120));
    assert!((first..=last).contains(&address), "{ip} is not in the document's pool");
    assert_eq!(ipv4(&interface(&name(pod), "eth0")), (ip.to_string(), 16));
    ip.to_string()
}

/// Every pod reaches every other.
fn all_reach_each_other(pods: &[Value]) {
    for from in pods {
        for to in pods {
            if name(from) != name(to) {
                inside(&name(from), &format!("ping -c 1 -w 15 {}", pool_address(to))).good();
            }
        }
    }
}

#[test]
fn seed_001_sriov_half_as_printed() {
    own_lab(&["--nodes", "3"]);
    let [policy, network, pods, _, _] = document();
    let mut objects = Objects::default();
    objects.apply(&policy);
    for node in nodes() {
        eventually("the node offers twelve functions", 90, || match allocatable(&node, RESOURCE).as_str() {
            "12" => Ok(()),
            other => Err(format!("{node}: {other}")),
        });
    }
    objects.apply(&network);
    let config = rendered("kube-system", "ib-sriov", 30);
    assert_eq!(config["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"], RESOURCE);

    objects.apply(&pods);
    let running = of_label("app=ib-sriov", nodes().len(), 120);
    let mut addresses: Vec<_> = running.iter().map(pool_address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), running.len(), "each pod has an address of its own");
    for pod in &running {
        let devices = inside(&name(pod), "ls /dev/infiniband").good();
        assert!(devices.contains("uverbs"), "the pod has the function's RDMA device: {devices}");
        // The pod's own command lists both, so its log is there.
        kubectl(&["logs", &name(pod)]).good();
    }
    all_reach_each_other(&running);
    needs_kernel("001: `rdma link` in the pod shows its own device, ACTIVE");
    needs_kernel("001: `ib_read_lat` between the pods");

    drop(objects);
    for node in nodes() {
        eventually("the node is as it was", 120, || match allocatable(&node, RESOURCE).as_str() {
            "absent" | "0" => Ok(()),
            other => Err(format!("{node}: {other}")),
        });
    }
}

#[test]
fn seed_001_ipoib_half_as_printed() {
    own_lab(&["--nodes", "3"]);
    let [_, _, _, network, pods] = document();
    let mut objects = Objects::default();
    objects.apply(&network);
    let config = rendered("kube-system", "ipoib", 30);
    let text = config["spec"]["config"].as_str().expect("a configuration").to_string();
    assert!(
        text.contains("\"ipoib\"") && text.contains("ibs5f0"),
        "the section that is there decides: {text}"
    );

    objects.apply(&pods);
    let running = of_label("app=ipoib", nodes().len(), 120);
    all_reach_each_other(&running);
    for pod in &running {
        let devices = inside(&name(pod), "ls /dev/infiniband 2>/dev/null; true").good();
        assert_eq!(devices, "", "an IPoIB pod has no RDMA device");
    }
}
