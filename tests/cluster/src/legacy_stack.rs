//! State of Multus, Whereabouts, Spiderpool and ib-kubernetes, created without them: pods with interfaces, files on
//! their nodes, objects in the cluster.
//!
//! ```text
//! /etc/cni/net.d/00-multus.conf                          in front of the cluster's own network
//! /var/lib/cni/multus/<container>                        the delegates, in order
//! /var/lib/cni/multus/results/<network>-<container>-net1 libcni's cache
//! IPPool, OverlappingRangeIPReservation                  Whereabouts' records
//! SpiderIPPool.status, SpiderEndpoint, Lease             Spiderpool's records
//! annotation network-status                              written by Multus
//! /var/lib/cni/ib-sriov/<container>-net1                 ib-sriov's record of the pod's function
//! annotation networks with marker and GUID               written by ib-kubernetes
//! ```

use crate::{
    TestObjects, eventually, exec_on, kubectl, kubectl_with, network_definition, pod_with_annotations,
    wait_pod_ready, whereabouts_binary,
};
use serde_json::{Value, json};

/// A GUID assigned by ib-kubernetes, and its function, on an adapter that no longer exists.
pub const GUID: &str = "02:00:00:00:00:00:0b:0b";
const VF_ADDRESS: &str = "0000:87:00.5";

/// A pod attached by the legacy stack.
#[derive(Clone, Debug)]
pub struct LegacyPod {
    pub name: String,
    pub node: String,
    pub uid: String,
    /// ID of its sandbox.
    pub container: String,
    /// The address of net1.
    pub address: String,
}

/// Installs the custom resource definitions of the legacy stack.
pub fn install_crds() {
    let folder = format!("{}/../../deploy/crds", env!("CARGO_MANIFEST_DIR"));
    for file in [
        "k8s.cni.cncf.io_network-attachment-definitions",
        "whereabouts.cni.cncf.io_ippools",
        "whereabouts.cni.cncf.io_overlappingrangeipreservations",
        "spiderpool.spidernet.io_spiderippools",
        "spiderpool.spidernet.io_spiderendpoints",
    ] {
        kubectl(&["apply", "--server-side", "-f", &format!("{folder}/{file}.yaml")]).stdout_or_panic();
    }
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]).stdout_or_panic();
}

/// Writes Multus' CNI configuration in front of the default network on a node; its binary is not needed.
pub fn configure_multus(node: &str) {
    let own: Value =
        serde_json::from_str(&exec_on(node, "cat /etc/cni/net.d/10-lab.conflist").stdout_or_panic())
            .expect("JSON");
    let config = json!({
        "cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "delegates": [own],
        "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
    });
    write_file(node, "/etc/cni/net.d/00-multus.conf", &config.to_string());
}

impl LegacyPod {
    /// Creates a pod with `net1` on an existing network.
    #[track_caller]
    pub fn create(objects: &mut TestObjects, name: &str, node: &str, network: &Value, address: &str) -> Self {
        let network_name = network["name"].as_str().expect("a name");
        let networks = match network.get("pkey") {
            None => network_name.to_owned(),
            Some(key) => json!([{"name": network_name, "namespace": "default", "cni-args": {
                "guid": GUID, "mellanox.infiniband.app": "configured", "pkey": key,
            }}])
            .to_string(),
        };
        let annotations = json!({"k8s.v1.cni.cncf.io/networks": networks});
        objects.apply(&pod_with_annotations(name, node, &annotations));
        let pod = wait_pod_ready(name, 120);
        // The runtime's CNI cache of the sandbox.
        let script = format!("grep -l '\"{name}\"' /var/lib/cni/results/lab-*-eth0");
        let file = exec_on(node, &script).stdout_or_panic();
        let cached: Value =
            serde_json::from_str(&exec_on(node, &format!("cat {file}")).stdout_or_panic()).expect("JSON");
        let text = |key: &str| cached[key].as_str().unwrap_or_else(|| panic!("{cached}")).to_owned();
        let (container, netns) = (text("containerId"), text("netns"));
        let inside = netns.rsplit('/').next().unwrap_or_default();
        exec_on(
            node,
            &format!(
                "ip -n {inside} link add net1 type veth peer name net1-far && ip -n {inside} address add {address}/24 dev net1 && \
                 ip -n {inside} link set net1 up && ip -n {inside} link set net1-far up"
            ),
        )
        .stdout_or_panic();
        let made = Self {
            name: name.to_owned(),
            node: node.to_owned(),
            uid: pod["metadata"]["uid"].as_str().expect("a UID").to_owned(),
            container,
            address: address.to_owned(),
        };
        made.write_state_files(&cached, network, network_name);
        let status = json!([
            {"name": "lab", "interface": "eth0", "ips": [pod["status"]["podIP"]], "default": true, "dns": {}},
            {"name": format!("default/{network_name}"), "interface": "net1", "ips": [address], "dns": {}},
        ]);
        let note = format!("k8s.v1.cni.cncf.io/network-status={status}");
        kubectl(&["annotate", "pod", name, &note]).stdout_or_panic();
        made
    }

    /// Writes Multus' list of delegates, and libcni's cache in Multus' folder.
    fn write_state_files(&self, cached: &Value, network: &Value, network_name: &str) {
        let config = base64(&self.node, &network.to_string());
        let delegates = json!([
            {"Conf": {}, "ConfList": {"cniVersion": "1.0.0", "name": "lab"}, "Name": "lab", "Bytes": cached["config"]},
            {"Conf": {"cniVersion": "0.3.1", "name": network_name, "type": network["type"]}, "ConfList": {},
                "Name": format!("default/{network_name}"), "Bytes": config},
        ]);
        let folder = "/var/lib/cni/multus";
        exec_on(&self.node, &format!("mkdir -p -m 700 {folder} {folder}/results")).stdout_or_panic();
        write_file(&self.node, &format!("{folder}/{}", self.container), &delegates.to_string());
        if network["type"] == "ib-sriov" {
            let function = json!({
                "Master": "ibs5f0", "deviceID": VF_ADDRESS, "VFID": 3, "HostIFNames": "ibs5f0v3", "ContIFNames": "net1",
                "HostIFGUID": "00:00:00:00:00:00:00:00", "pkey": network["pkey"], "ibKubernetesEnabled": true,
                "args": {"cni": {"guid": GUID, "mellanox.infiniband.app": "configured", "pkey": network["pkey"]}},
                "cniVersion": "0.3.1", "name": network_name, "type": "ib-sriov",
            });
            let folder = "/var/lib/cni/ib-sriov";
            exec_on(&self.node, &format!("mkdir -p -m 700 {folder}")).stdout_or_panic();
            write_file(&self.node, &format!("{folder}/{}-net1", self.container), &function.to_string());
        }
        let sandbox = &cached["netns"];
        let result = json!({"cniVersion": "0.3.1", "interfaces": [{"name": "net1", "sandbox": sandbox}],
            "ips": [{"version": "4", "address": format!("{}/24", self.address), "interface": 0}]});
        let entry = |name: &str, ifname: &str, config: &Value, result: &Value| {
            json!({"kind": "cniCacheV1", "containerId": self.container, "config": config, "ifName": ifname,
                "networkName": name, "netns": sandbox, "cniArgs": cached["cniArgs"], "result": result})
        };
        let file = |name: &str, ifname: &str| format!("{folder}/results/{name}-{}-{ifname}", self.container);
        let own = entry("lab", "eth0", &cached["config"], &cached["result"]);
        write_file(&self.node, &file("lab", "eth0"), &own.to_string());
        write_file(
            &self.node,
            &file(network_name, "net1"),
            &entry(network_name, "net1", &json!(config), &result).to_string(),
        );
    }

    /// Its state files on the node.
    pub fn state_files(&self) -> String {
        exec_on(
            &self.node,
            &format!("ls -d /var/lib/cni/*/* /var/lib/cni/*/results/* | grep {}; true", self.container),
        )
        .stdout_or_panic()
    }

    /// Its record in a Whereabouts IPPool: offset and allocation.
    pub fn whereabouts_allocation(&self) -> (String, Value) {
        let last = self.address.rsplit('.').next().unwrap_or_default();
        let record =
            json!({"id": self.container, "podref": format!("default/{}", self.name), "ifname": "net1"});
        (last.to_owned(), record)
    }
}

/// Creates Whereabouts' records of pods, all in one range.
#[track_caller]
pub fn record_whereabouts(objects: &mut TestObjects, range: &str, pods: &[&LegacyPod]) {
    if let Some(program) = whereabouts_binary::binary_path() {
        return whereabouts_binary::assign(&program, range, pods);
    }
    let allocations: serde_json::Map<_, _> = pods.iter().map(|pod| pod.whereabouts_allocation()).collect();
    let pool = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
        "metadata": {"name": range.replace('/', "-"), "namespace": "kube-system"},
        "spec": {"range": range, "allocations": allocations},
    });
    objects.apply(&pool.to_string());
    for pod in pods {
        let reservation = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
            "metadata": {"name": pod.address, "namespace": "kube-system"},
            "spec": {"podref": format!("default/{}", pod.name), "ifname": "net1"},
        });
        objects.apply(&reservation.to_string());
    }
}

/// Creates Spiderpool's records of a pod: pool status, endpoint, and a current lease of the controller.
#[track_caller]
pub fn record_spiderpool(objects: &mut TestObjects, pool: &str, pod: &LegacyPod) {
    let records = json!({&pod.address: {"pod": format!("default/{}", pod.name), "podUid": pod.uid}});
    let status =
        json!({"status": {"allocatedIPs": records.to_string(), "allocatedIPCount": 1, "totalIPCount": 4}});
    let change = ["patch", "spiderippool", pool, "--subresource=status", "--type=merge", "-p"];
    kubectl(&[&change[..], &[&status.to_string()]].concat()).stdout_or_panic();
    let endpoint = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
        "metadata": {
            "name": pod.name, "finalizers": ["spiderpool.spidernet.io"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "status": {
            "current": {"uid": pod.uid, "node": pod.node, "ips": [
                {"interface": "net1", "ipv4": format!("{}/24", pod.address), "ipv4Pool": pool, "vlan": 0},
            ]},
            "ownerControllerType": "Pod", "ownerControllerName": pod.name,
        },
    });
    kubectl_with(&["apply", "-f", "-"], &endpoint.to_string()).stdout_or_panic();
    let now = exec_on("control", "date -u +%Y-%m-%dT%H:%M:%S.000000Z").stdout_or_panic();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "spiderpool-controller-leases", "namespace": "kube-system"},
        "spec": {"holderIdentity": "spiderpool-controller-0", "leaseDurationSeconds": 600, "renewTime": now.trim()},
    });
    objects.apply(&lease.to_string());
}

/// Applies a network that both stacks serve.
#[track_caller]
pub fn apply_network(objects: &mut TestObjects, network: &Value) {
    objects.apply(&network_definition(network["name"].as_str().expect("a name"), network).to_string());
}

fn base64(node: &str, text: &str) -> String {
    exec_on(node, &format!("base64 -w0 <<'END'\n{text}\nEND")).stdout_or_panic()
}

pub(crate) fn write_file(node: &str, path: &str, text: &str) {
    exec_on(node, &format!("umask 077; cat > {path} <<'END'\n{text}\nEND")).stdout_or_panic();
}

/// Waits until an object is gone or does not contain a text.
#[track_caller]
pub fn wait_absent(what: &str, seconds: u64, text: &str, ask: &[&str]) {
    eventually(what, seconds, || {
        let output =
            kubectl(&[&["get", "--ignore-not-found", "-o", "jsonpath={.spec}{.status}"], ask].concat());
        if output.ok && !output.out.contains(text) { Ok(()) } else { Err(output.out + &output.err) }
    });
}
