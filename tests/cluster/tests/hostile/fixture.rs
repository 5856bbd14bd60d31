//! Hardened daemons, a victim with a running pod in an enforced partition, and an attacker with a namespace.

use ferroband_cluster_tests::fabric::{UfmFabric, pkey_tables};
use ferroband_cluster_tests::hardened::HardenedDaemons;
use ferroband_cluster_tests::inspect::assigned_addresses;
use ferroband_cluster_tests::tenants::{
    RED, member_guid, pod_warnings, tenant_fixture, tenant_network, tenant_pod,
};
use ferroband_cluster_tests::{
    LabOutput, TestObjects, eventually, exec_on, kubectl, kubectl_get, kubectl_with, network_definition,
    node_names, pod_with_annotations,
};
use ferroband_testbed::audit::{PodTenancy, audit};
use serde_json::{Value, json};
use std::time::Instant;

/// Namespace of the attacker.
pub const ATTACKER: &str = "mallory";
/// Namespace of the victim.
pub const VICTIM: &str = "victim";
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Quota of P_Keys per namespace.
pub const PKEY_QUOTA: usize = 2;

/// Arguments of both daemons.
const TENANT_ARGUMENTS: [&str; 2] = ["--trusted-namespaces=kube-system", "--unlisted-partitions=refuse"];

pub struct HostileFixture {
    pub objects: TestObjects,
    pub fabric: UfmFabric,
    /// The victim's pod runs on the first node, the attacker's on the second.
    pub nodes: Vec<String>,
    victim: VictimState,
    tenancy: PodTenancy,
    _daemons: HardenedDaemons,
}

/// What must not change.
#[derive(Debug, PartialEq)]
struct VictimState {
    /// Members of the victim's partition according to the subnet manager.
    members: Vec<String>,
    /// P_Key table of the victim's port.
    pkeys: Vec<String>,
    /// Addresses that are recorded for the victim.
    addresses: Vec<String>,
    /// Rules and routes of the victim's node.
    routes: String,
}

impl VictimState {
    fn read(fabric: &UfmFabric, node: &str, guid: &str) -> Self {
        let of_victim = |(address, entry): (std::net::IpAddr, Value)| {
            let is_victim = entry.to_string().contains(&format!("{VICTIM}/"));
            is_victim.then(|| address.to_string())
        };
        Self {
            members: fabric.members(RED),
            pkeys: pkey_tables(node).remove(guid).unwrap_or_default(),
            addresses: assigned_addresses().into_iter().filter_map(of_victim).collect(),
            routes: exec_on(
                node,
                "ip rule; ip route show table main; ip route show table 500 2>/dev/null; true",
            )
            .stdout_or_panic(),
        }
    }
}

impl HostileFixture {
    pub fn start() -> Self {
        let node_arguments =
            ["--namespace-isolation", "--network-plugins=listed", "--listed-plugins=multus,ferroband"];
        let quota = format!("--max-pkeys-per-namespace={PKEY_QUOTA}");
        let daemons = HardenedDaemons::restart(
            &[&TENANT_ARGUMENTS[..], &node_arguments].concat(),
            &[&TENANT_ARGUMENTS[..], &[&quota]].concat(),
        );
        let (mut objects, nodes) = (TestObjects::default(), node_names());
        for namespace in [ATTACKER, VICTIM] {
            objects.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"));
        }
        // A number is as good as a string, and a Partition without `mode` is enforced.
        objects.apply(&partition("hostile-red", json!(RED), &[VICTIM]));
        let fabric = tenant_fixture(&mut objects);
        objects.apply(&tenant_network(VICTIM, "red", json!("0x3e8")));
        objects.apply(&tenant_pod(VICTIM, "victim", &nodes[0], "red"));
        wait_running(VICTIM, "victim");
        let guid = member_guid("victim");
        let victim = VictimState::read(&fabric, &nodes[0], &guid);
        assert_eq!(victim.members, [guid.as_str()]);
        assert!(!victim.addresses.is_empty() && !victim.pkeys.is_empty(), "{victim:?}");
        let pod = format!("{VICTIM}/victim");
        let guid = guid.parse().expect("a GUID");
        let tenancy = PodTenancy { pod, guid, key: RED, from: Instant::now(), to: None };
        Self { objects, fabric, nodes, victim, tenancy, _daemons: daemons }
    }

    /// Asserts that nothing of the victim has changed.
    #[track_caller]
    pub fn assert_victim_unchanged(&self) {
        let now = VictimState::read(&self.fabric, &self.nodes[0], &self.tenancy.guid.to_string());
        assert_eq!(now, self.victim);
        let breaches = audit(&self.fabric.ufm.events(), std::slice::from_ref(&self.tenancy));
        assert!(breaches.is_empty(), "{breaches:?}");
        let pod = kubectl_get(&["pod", "-n", VICTIM, "victim"]);
        assert_eq!(pod["status"]["phase"], "Running", "{}", pod["status"]);
    }

    /// Creates a pod of the attacker with these annotations. It must not start, and a warning must contain `rule`.
    #[track_caller]
    pub fn assert_pod_refused(&mut self, name: &str, annotations: &Value, rule: &str) {
        let mut pod: Value =
            serde_json::from_str(&pod_with_annotations(name, &self.nodes[1], annotations)).expect("JSON");
        pod["metadata"]["namespace"] = json!(ATTACKER);
        self.assert_refused(name, &pod.to_string(), rule);
    }

    /// The same with a whole manifest.
    #[track_caller]
    pub fn assert_refused(&mut self, name: &str, manifest: &str, rule: &str) {
        self.objects.apply(manifest);
        eventually(&format!("{name} is refused: {rule}"), 60, || match pod_warnings(ATTACKER, name) {
            messages if messages.contains(rule) => Ok(()),
            messages => Err(messages),
        });
        let phase = kubectl_get(&["pod", "-n", ATTACKER, name])["status"]["phase"].clone();
        assert_eq!(phase, "Pending", "{name}");
        kubectl(&["delete", "pod", "-n", ATTACKER, name, "--wait", "--timeout=60s"]).stdout_or_panic();
        self.assert_victim_unchanged();
    }

    /// Creates a network of the attacker.
    #[track_caller]
    pub fn apply_network(&mut self, name: &str, config: &Value) {
        self.apply_network_text(name, &config.to_string());
    }

    /// The same with the text of the configuration.
    #[track_caller]
    pub fn apply_network_text(&mut self, name: &str, config: &str) {
        let mut network = network_definition(name, &json!({}));
        network["metadata"]["namespace"] = json!(ATTACKER);
        network["spec"]["config"] = json!(config);
        self.objects.apply(&network.to_string());
    }
}

pub fn partition(name: &str, pkey: Value, namespaces: &[&str]) -> String {
    json!({
        "apiVersion": "ferroband.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
        "spec": {"pkey": pkey, "namespaces": namespaces},
    })
    .to_string()
}

/// An IPoIB network with addresses of its own.
pub fn ipoib() -> Value {
    json!({"cniVersion": "1.0.0", "type": "ipoib", "master": "ibs5f0",
        "ipam": {"type": "whereabouts", "range": "192.168.199.0/24"}})
}

#[track_caller]
pub fn wait_running(namespace: &str, pod: &str) {
    eventually(&format!("{namespace}/{pod} runs"), 120, || {
        match kubectl_get(&["pod", "-n", namespace, pod])["status"]["phase"].as_str() {
            Some("Running") => Ok(()),
            other => Err(format!("{other:?} {}", pod_warnings(namespace, pod))),
        }
    });
}

/// Applies a manifest without failing.
pub fn try_apply(manifest: &Value) -> LabOutput {
    kubectl_with(&["apply", "-f", "-"], &manifest.to_string())
}
