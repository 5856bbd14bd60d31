//! Attacks on devices: a pod or a network names a device that the kubelet did not allocate to the pod.

use ferroband_cluster_tests::fabric::pkey_tables;
use ferroband_cluster_tests::hardware::{PF, pod_identity, vf_address};
use ferroband_cluster_tests::tenants::{apply_tenant_networks, pod_warnings, tenant_pod};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, network_definition, node_names, try_get,
};
use serde_json::{Value, json};

const EVIL: &str = "evil";

/// A network and a pod of the attacker.
struct DeviceAttack {
    name: &'static str,
    config: Value,
    /// Further fields of the pod's network selection.
    selection: Value,
}

impl DeviceAttack {
    fn new(name: &'static str, config: Value) -> Self {
        Self { name, config, selection: json!({}) }
    }

    fn network(&self) -> String {
        let mut network = network_definition(self.name, &self.config);
        network["metadata"]["namespace"] = json!(EVIL);
        network.to_string()
    }

    fn pod(&self, node: &str) -> String {
        let mut selection = self.selection.clone();
        selection["name"] = json!(self.name);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": EVIL,
                "annotations": {"k8s.v1.cni.cncf.io/networks": json!([selection]).to_string()}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "ferroband.lab/tools:1"}],
            },
        })
        .to_string()
    }
}

/// The networks that N creates in its namespace, and what P writes into annotations. `victim` is a function of another
/// pod, `free` one that no pod has, and `interface` the interface of `free`.
fn attacks(victim: &str, free: &str, interface: &str) -> Vec<DeviceAttack> {
    let function = |key: &str, device: &str| json!({"type": "ib-sriov", key: device});
    let chain = |plugins: Value| json!({"cniVersion": "1.0.0", "name": "chain", "plugins": plugins});
    let ipoib = |master: &str| json!({"type": "ipoib", "master": master});
    let mut in_partition = function("deviceID", free);
    in_partition["pkey"] = json!("0x3e8");
    let capable = json!({"type": "ib-sriov", "capabilities": {"deviceID": true}});
    vec![
        DeviceAttack::new("function-of-a-pod", function("deviceID", victim)),
        DeviceAttack::new("free-function", function("deviceID", free)),
        DeviceAttack::new("free-function-by-alias", function("pciBusID", free)),
        DeviceAttack::new("free-function-in-capitals", function("DEVICEID", free)),
        DeviceAttack::new(
            "free-function-at-runtime",
            json!({"type": "ib-sriov", "runtimeConfig": {"deviceID": free}}),
        ),
        DeviceAttack::new("partition-of-a-free-function", in_partition),
        DeviceAttack {
            selection: json!({"deviceID": free}),
            ..DeviceAttack::new("free-function-by-annotation", capable)
        },
        DeviceAttack::new(
            "physical-function",
            json!({"type": "ib-sriov", "deviceID": PF, "vfioPciMode": true}),
        ),
        DeviceAttack::new(
            "rdma-of-the-physical-function",
            chain(json!([ipoib("ibs5f0"), {"type": "rdma", "deviceID": PF}])),
        ),
        DeviceAttack::new(
            "rdma-of-a-free-function",
            chain(json!([ipoib("ibs5f0"), {"type": "rdma", "deviceID": free}])),
        ),
        DeviceAttack::new("child-of-a-free-function", ipoib(interface)),
        DeviceAttack::new("function-by-another-plugin", json!({"type": "host-device", "pciBusID": free})),
    ]
}

/// Interfaces, records and P_Key tables of the node's functions.
fn device_state(node: &str) -> Value {
    let listed = exec_on(
        node,
        "ip -br link | awk '{print $1}' | grep '^ibs5f0' | sort; ls /var/lib/ferroband/device; \
         ls /var/lib/ferroband/sim/sys/class/infiniband",
    );
    json!([listed.stdout_or_panic(), pkey_tables(node)])
}

#[test]
fn hostile_networks_get_no_device_that_the_pod_was_not_given() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {EVIL}}}}}"));
    apply_tenant_networks(&mut objects);
    let node = &nodes[0];
    objects.apply(&tenant_pod("default", "hostile-victim", node, "red"));
    objects.wait_ready("hostile-victim", 120);
    let variable = "echo $PCIDEVICE_SPIDERNET_IO_FABRIC";
    let victim = exec_in_pod("hostile-victim", variable).stdout_or_panic().trim().to_owned();
    let free = (0..4).map(vf_address).find(|address| *address != victim).expect("a free function");
    let interface = exec_on(node, &format!("ls /var/lib/ferroband/sim/sys/bus/pci/devices/{free}/net"));
    let interface = interface.stdout_or_panic().trim().to_owned();
    let (before, identity) = (device_state(node), pod_identity("hostile-victim"));

    let attacks = attacks(&victim, &free, &interface);
    for attack in &attacks {
        objects.apply(&attack.network()).apply(&attack.pod(node));
    }
    for DeviceAttack { name, .. } in &attacks {
        eventually(&format!("attack {name} is refused"), 90, || {
            let warnings = pod_warnings(EVIL, name);
            let pod = try_get(&["-n", EVIL, "pod", name])?;
            let refused = warnings.contains("[DeviceNotAllocated]") && pod["status"]["phase"] == "Pending";
            if refused { Ok(()) } else { Err(format!("{}: {warnings}", pod["status"]["phase"])) }
        });
        println!("attack: {name}: refused");
    }
    assert_eq!(device_state(node), before, "no device, record or P_Key table changed");
    assert_eq!(pod_identity("hostile-victim"), identity);
    let members = try_get(&["nodepartitions", node]).map(|object| object["spec"]["members"].to_string());
    assert!(!members.unwrap_or_default().contains(EVIL), "no membership was entered");
}
