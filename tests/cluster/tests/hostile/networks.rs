//! Attacks with SpiderMultusConfigs, SriovIBNetworks and the size of NetworkAttachmentDefinitions.

use crate::fixture::{ATTACKER, HostileFixture, NETWORKS, VICTIM, ipoib, try_apply};
use ferroband_cluster_tests::{eventually, kubectl_with, wait_network_definition};
use serde_json::{Value, json};

const GROUP: &str = "cni.spidernet.io/rdma-resource-inject";

fn rail(namespace: &str, name: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": name, "namespace": namespace, "annotations": {GROUP: "hostile-rails"}},
        "spec": {"cniType": "ib-sriov", "ibsriov": {"resourceName": resource, "ippools": {"ipv4": ["p"]}}},
    })
}

/// A config of the attacker in the victim's group would add its network to all pods of the victim.
pub fn n_network_of_another_namespace_is_not_injected_into_a_group(hostile: &mut HostileFixture) {
    hostile.objects.apply(&rail("kube-system", "good-rail", "spidernet.io/good").to_string());
    hostile.objects.apply(&rail(ATTACKER, "evil-rail", "spidernet.io/evil").to_string());
    wait_network_definition("kube-system", "good-rail", 30);
    wait_network_definition(ATTACKER, "evil-rail", 30);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "in-group", "namespace": VICTIM, "annotations": {GROUP: "hostile-rails"}},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    });
    let injected = eventually("the trusted network is injected", 30, || {
        let args = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        let answer = kubectl_with(&args, &pod.to_string());
        let created: Value = serde_json::from_str(&answer.out).map_err(|_| answer.err)?;
        let networks = created["metadata"]["annotations"][NETWORKS].clone();
        if networks.is_string() { Ok(created) } else { Err(created.to_string()) }
    });
    assert_eq!(injected["metadata"]["annotations"][NETWORKS], "kube-system/good-rail");
    let limits = &injected["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!((&limits["spidernet.io/good"], limits.get("spidernet.io/evil")), (&json!("1"), None));
    hostile.assert_victim_unchanged();
}

fn nested(levels: usize) -> String {
    format!(r#"{{"type":"whereabouts","a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
}

fn ib_network(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

#[track_caller]
fn assert_denied(hostile: &mut HostileFixture, object: &Value, rule: &str) {
    let answer = try_apply(object);
    hostile.objects.track(&object.to_string());
    assert!(!answer.ok && answer.err.contains(rule), "{answer:?}");
    hostile.assert_victim_unchanged();
}

pub fn n_deeply_nested_sriovibnetwork_is_refused(hostile: &mut HostileFixture) {
    let network = ib_network(ATTACKER, "deep", json!({"resourceName": "fabric", "ipam": nested(20_000)}));
    assert_denied(hostile, &network, "nested deeper than");
}

pub fn n_deeply_nested_spidermultusconfig_is_refused(hostile: &mut HostileFixture) {
    let config = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": "deep", "namespace": ATTACKER},
        "spec": {"cniType": "custom", "customCNI": nested(20_000)},
    });
    assert_denied(hostile, &config, "nested deeper than");
}

/// A network of the attacker would appear in the victim's namespace.
pub fn n_network_namespace_of_another_tenant_is_refused(hostile: &mut HostileFixture) {
    let network =
        ib_network(ATTACKER, "planted", json!({"resourceName": "fabric", "networkNamespace": VICTIM}));
    assert_denied(hostile, &network, "networkNamespace may only be set on objects in the namespaces");
}

/// The hardening guide removes `spiderpool` from the trusted namespaces: a tenant could get a namespace of this name.
pub fn n_namespace_called_spiderpool_is_not_trusted(hostile: &mut HostileFixture) {
    hostile.objects.apply("{apiVersion: v1, kind: Namespace, metadata: {name: spiderpool}}");
    let network =
        ib_network("spiderpool", "planted", json!({"resourceName": "fabric", "networkNamespace": VICTIM}));
    assert_denied(hostile, &network, "in the namespaces ferroband-system, kube-system");
}

pub fn n_deeply_nested_definition_is_refused(hostile: &mut HostileFixture) {
    hostile.apply_network_text("deep-definition", &nested(20_000));
    hostile.assert_pod_refused(
        "deep-definition",
        &json!({NETWORKS: "deep-definition"}),
        "recursion limit exceeded",
    );
}

pub fn n_huge_definition_is_refused(hostile: &mut HostileFixture) {
    let mut config = ipoib();
    config["padding"] = json!("x".repeat(300_000));
    // `kubectl apply` would copy the object into an annotation, which is limited.
    let mut network = ferroband_cluster_tests::network_definition("huge", &config);
    network["metadata"]["namespace"] = json!(ATTACKER);
    hostile.objects.track(&network.to_string());
    kubectl_with(&["create", "-f", "-"], &network.to_string()).stdout_or_panic();
    hostile.assert_pod_refused("huge", &json!({NETWORKS: "huge"}), "bytes, but at most");
}
