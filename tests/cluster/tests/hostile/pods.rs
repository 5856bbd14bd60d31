//! Attacks with the annotations of pods.

use crate::fixture::{ATTACKER, HostileFixture, NETWORKS, VICTIM, ipoib, try_apply};
use ferroband_cluster_tests::{kubectl, pod_with_annotations};
use serde_json::{Value, json};

const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
const GROUP: &str = "cni.spidernet.io/rdma-resource-inject";

pub fn p_default_network_of_another_namespace_is_refused(hostile: &mut HostileFixture) {
    let network = format!("{VICTIM}/red");
    hostile.assert_pod_refused(
        "default-network",
        &json!({DEFAULT_NETWORK: network}),
        "namespace isolation enabled",
    );
}

pub fn p_network_of_another_namespace_is_refused(hostile: &mut HostileFixture) {
    let network = format!("{VICTIM}/red");
    hostile.assert_pod_refused("network", &json!({NETWORKS: network}), "namespace isolation enabled");
}

fn many_networks(count: usize) -> String {
    (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>().join(",")
}

fn attacker_pod(name: &str, node: &str, annotations: &Value) -> Value {
    let mut pod: Value = serde_json::from_str(&pod_with_annotations(name, node, annotations)).expect("JSON");
    pod["metadata"]["namespace"] = json!(ATTACKER);
    pod
}

pub fn p_more_networks_than_allowed_are_refused_at_admission(hostile: &mut HostileFixture) {
    let annotations = json!({NETWORKS: many_networks(20_000)});
    let answer = try_apply(&attacker_pod("many-names", &hostile.nodes[1], &annotations));
    assert!(!answer.ok && answer.err.contains("maxNetworksPerPod"), "{}", answer.err);
    hostile.assert_victim_unchanged();
}

/// The annotation is added after admission, where the webhook does not see it.
pub fn p_more_networks_than_allowed_are_refused_at_add(hostile: &mut HostileFixture) {
    hostile.apply_network("often", &ipoib());
    let mut pod = attacker_pod("many-later", &hostile.nodes[1], &json!({}));
    let spec = pod["spec"].as_object_mut().expect("a spec");
    spec.remove("nodeName");
    spec.insert("nodeSelector".to_owned(), json!({"kubernetes.io/hostname": hostile.nodes[1]}));
    spec.insert("schedulingGates".to_owned(), json!([{"name": "ferroband.io/test"}]));
    hostile.objects.apply(&pod.to_string());
    let annotation = format!("{NETWORKS}={}", vec!["often"; 65].join(","));
    kubectl(&["annotate", "pod", "-n", ATTACKER, "many-later", &annotation]).stdout_or_panic();
    pod["spec"]["schedulingGates"] = json!([]);
    pod["metadata"]["annotations"] = json!({NETWORKS: vec!["often"; 65].join(",")});
    hostile.assert_refused("many-later", &pod.to_string(), "maxNetworksPerPod");
}

pub fn p_group_of_another_namespace_is_refused(hostile: &mut HostileFixture) {
    let rail = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": "private-rail", "namespace": VICTIM, "annotations": {GROUP: "private"}},
        "spec": {"cniType": "ib-sriov", "ibsriov": {"resourceName": "spidernet.io/fabric", "ippools": {"ipv4": ["p"]}}},
    });
    hostile.objects.apply(&rail.to_string());
    let answer = try_apply(&attacker_pod("group", &hostile.nodes[1], &json!({GROUP: "private"})));
    assert!(
        !answer.ok && answer.err.contains("in namespace mallory or in a trusted namespace"),
        "{}",
        answer.err
    );
    hostile.assert_victim_unchanged();
}
