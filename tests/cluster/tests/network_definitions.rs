//! NetworkAttachmentDefinitions rendered from SpiderMultusConfigs and SriovIBNetworks, on a real API server.

use ferroband_cluster_tests::{
    LabOutput, TestObjects, eventually, kubectl, kubectl_get, kubectl_with, wait_network_definition,
};
use serde_json::{Value, json};

fn multus_config(name: &str, annotations: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": name, "namespace": "kube-system", "annotations": annotations}, "spec": spec,
    })
}

fn ib_network(name: &str, namespace: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

fn ib_sriov_spec(extra: Value) -> Value {
    let mut section = json!({"resourceName": "spidernet.io/mellanoxibsriov", "ippools": {"ipv4": ["v4-91"]}});
    for (key, value) in extra.as_object().into_iter().flatten() {
        section[key] = value.clone();
    }
    json!({"cniType": "ib-sriov", "ibsriov": section})
}

fn apply(object: &Value) -> LabOutput {
    kubectl_with(&["apply", "-f", "-"], &object.to_string())
}

fn rejection(object: &Value) -> String {
    let answer = apply(object);
    assert!(!answer.ok, "accepted: {object}");
    answer.err
}

fn wait_deleted(namespace: &str, name: &str) {
    eventually(&format!("definition {namespace}/{name} gone"), 60, || {
        let output =
            kubectl(&["get", "net-attach-def", "-n", namespace, name, "--ignore-not-found", "-o", "name"]);
        if output.ok && output.out.trim().is_empty() { Ok(()) } else { Err(output.out + &output.err) }
    });
}

fn wait_ready_condition(namespace: &str, name: &str, status: &str, reason: &str) -> Value {
    eventually(&format!("Ready={status} {reason} on {namespace}/{name}"), 30, || {
        let object = kubectl_get(&["sriovibnetworks", "-n", namespace, name]);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
        if found["status"] == status && found["reason"] == reason {
            Ok(found)
        } else {
            Err(format!("{conditions:?}"))
        }
    })
}

// Case: ipam M01, ipam M05, ipam M12, ipam M13
#[test]
fn definition_is_created_restored_and_deleted_with_its_object() {
    let mut objects = TestObjects::default();
    objects.apply(&multus_config("m01", json!({}), ib_sriov_spec(json!({}))).to_string());
    let made = wait_network_definition("kube-system", "m01", 30);
    let expected = r#"{"cniVersion":"0.3.1","name":"m01","plugins":[{"type":"ib-sriov","pkey":"","link_state":"enable","ibKubernetesEnabled":false,"ipam":{"type":"spiderpool","default_ipv4_ippool":["v4-91"]}},{"txQueueLen":0,"tunePodRoutes":true,"mode":"auto","type":"coordinator"}]}"#;
    assert_eq!(made["spec"]["config"], expected);
    assert_eq!(
        made["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"],
        "spidernet.io/mellanoxibsriov"
    );
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("SpiderMultusConfig"), &json!("m01"), &json!(true))
    );

    let edit = json!({"spec": {"config": "{}"}, "metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "a.b/c", "keep/me": "x"}}});
    kubectl(&[
        "patch",
        "net-attach-def",
        "-n",
        "kube-system",
        "m01",
        "--type=merge",
        "-p",
        &edit.to_string(),
    ])
    .stdout_or_panic();
    eventually("the edit is reverted", 10, || {
        let definition = wait_network_definition("kube-system", "m01", 30);
        let annotations = &definition["metadata"]["annotations"];
        let matches = definition["spec"]["config"] == expected
            && annotations["k8s.v1.cni.cncf.io/resourceName"] == "spidernet.io/mellanoxibsriov"
            && annotations["keep/me"] == "x";
        if matches { Ok(()) } else { Err(definition.to_string()) }
    });
    kubectl(&["delete", "net-attach-def", "-n", "kube-system", "m01"]).stdout_or_panic();
    assert_eq!(wait_network_definition("kube-system", "m01", 30)["spec"]["config"], expected);
    objects.apply(
        &multus_config("m01", json!({}), ib_sriov_spec(json!({"rdmaIsolation": true, "mtu": 4092})))
            .to_string(),
    );
    eventually("the change is rendered", 10, || {
        let text = wait_network_definition("kube-system", "m01", 30)["spec"]["config"].to_string();
        let matches = text.contains(r#"\"rdmaIsolation\":true"#) && text.contains(r#"\"mtu\":4092"#);
        if matches { Ok(()) } else { Err(text) }
    });
    drop(objects);
    wait_deleted("kube-system", "m01");
}

// Case: ipam M02, ipam M04
#[test]
fn unambiguous_mistakes_are_accepted_with_a_warning() {
    let mut objects = TestObjects::default();
    let odd = multus_config(
        "m02",
        json!({}),
        json!({"cniType": "ib-sriov", "ipoib": {"master": "ibs5f0", "ippools": {"ipv4": ["v4-91"]}}}),
    );
    let answer = apply(&odd);
    objects.apply(&odd.to_string());
    assert!(answer.ok && answer.err.contains("set cniType: ipoib"), "{answer:?}");
    let text = wait_network_definition("kube-system", "m02", 30)["spec"]["config"].to_string();
    assert!(text.contains(r#"{\"type\":\"ipoib\",\"master\":\"ibs5f0\",\"ipam\":"#), "{text}");
    objects.apply(&multus_config("m04", json!({}), ib_sriov_spec(json!({"pkey": 1000}))).to_string());
    let text = wait_network_definition("kube-system", "m04", 30)["spec"]["config"].to_string();
    assert!(text.contains(r#"\"pkey\":\"0x03e8\""#), "{text}");
    objects.apply(&multus_config("m04", json!({}), ib_sriov_spec(json!({"pkey": "0x10"}))).to_string());
    for wrong in [
        json!("zz"),
        json!(0),
        json!(65536),
        json!("-1"),
        json!("0x7fff"),
        json!("0xffff"),
        json!("32767"),
        json!(65535),
        json!("0x8000"),
    ] {
        let message =
            rejection(&multus_config("m04-wrong", json!({}), ib_sriov_spec(json!({"pkey": wrong}))));
        assert!(message.contains("pkey"), "{message}");
    }
}

// Case: ipam M08, ipam M10, ipam M11, ipam M14, ipam M17
#[test]
fn invalid_network_configs_are_rejected() {
    let mut objects = TestObjects::default();
    let mut two = ib_sriov_spec(json!({}));
    two["macvlan"] = json!({"master": ["eth0"]});
    assert!(rejection(&multus_config("m08", json!({}), two)).contains("only one"));
    objects.apply(&multus_config("m10", json!({}), ib_sriov_spec(json!({}))).to_string());
    let named = json!({"multus.spidernet.io/cr-name": "m10-other"});
    assert!(rejection(&multus_config("m10", named.clone(), ib_sriov_spec(json!({})))).contains("cr-name"));
    assert!(
        rejection(&multus_config(
            "m10-b",
            json!({"multus.spidernet.io/cr-name": "Not_A_Name"}),
            ib_sriov_spec(json!({}))
        ))
        .contains("cr-name")
    );
    objects.apply(&multus_config("m10-c", named, ib_sriov_spec(json!({}))).to_string());
    wait_network_definition("kube-system", "m10-other", 30);
    assert!(
        rejection(&multus_config(
            "m11",
            json!({"multus.spidernet.io/cni-version": "0.2.0"}),
            ib_sriov_spec(json!({}))
        ))
        .contains("0.3.1")
    );
    objects.apply(
        &multus_config("m11", json!({"multus.spidernet.io/cni-version": "1.0.0"}), ib_sriov_spec(json!({})))
            .to_string(),
    );
    assert!(
        wait_network_definition("kube-system", "m11", 30)["spec"]["config"]
            .to_string()
            .contains(r#"\"cniVersion\":\"1.0.0\""#)
    );
    let custom = |text: &str| json!({"cniType": "custom", "customCNI": text});
    assert!(rejection(&multus_config("m14", json!({}), custom("{"))).contains("customCNI is not JSON"));
    objects.apply(&multus_config("m14", json!({}), custom("")).to_string());
    assert_eq!(wait_network_definition("kube-system", "m14", 30)["spec"].get("config"), None);
    let group = json!({"cni.spidernet.io/rdma-resource-inject": "m17"});
    let bare = json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}});
    assert!(rejection(&multus_config("m17", group.clone(), bare)).contains("ippools"));
    objects.apply(&multus_config("m17", group, ib_sriov_spec(json!({}))).to_string());
    let labels =
        kubectl_get(&["spidermultusconfigs", "-n", "kube-system", "m17"])["metadata"]["labels"].clone();
    assert_eq!(labels["cni.spidernet.io/rdma-resource-inject"], "m17");
}

#[test]
fn definition_of_another_owner_is_kept_and_reported() {
    let mut objects = TestObjects::default();
    let owner =
        multus_config("taken-a", json!({"multus.spidernet.io/cr-name": "taken"}), ib_sriov_spec(json!({})));
    objects.apply(&owner.to_string());
    let first = wait_network_definition("kube-system", "taken", 30);
    let second = multus_config(
        "taken-b",
        json!({"multus.spidernet.io/cr-name": "taken"}),
        ib_sriov_spec(json!({"mtu": 2000})),
    );
    objects.apply(&second.to_string());
    eventually("an event on taken-b", 30, || {
        let output = kubectl(&[
            "get",
            "events",
            "-n",
            "kube-system",
            "--field-selector",
            "involvedObject.name=taken-b",
            "-o",
            "json",
        ])
        .stdout_or_panic();
        if output.contains("belongs to SpiderMultusConfig taken-a") { Ok(()) } else { Err(output) }
    });
    assert_eq!(wait_network_definition("kube-system", "taken", 30)["spec"], first["spec"]);
}

// Case: operator C35, operator C36, operator C42
#[test]
fn sriovibnetworks_are_rendered_as_by_the_operator() {
    let mut objects = TestObjects::default();
    let spec = json!({
        "resourceName": "r", "capabilities": "{ \"infinibandGUID\": true }", "linkState": "enable",
        "ipam": "{\"type\":  \"whereabouts\", \"range\": \"10.0.0.0/24\"}",
    });
    objects.apply(&ib_network("c35", "default", spec).to_string());
    let made = wait_network_definition("default", "c35", 30);
    let text = made["spec"]["config"].as_str().unwrap_or_default();
    assert!(
        text.starts_with(
            "{\n    \"cniVersion\": \"1.0.0\",\n    \"name\": \"c35\",\n    \"type\": \"ib-sriov\","
        ),
        "{text}"
    );
    assert_eq!(made["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"], "spidernet.io/r");
    assert_eq!(
        made["metadata"]["annotations"]["sriovnetwork.openshift.io/owner-ref"],
        "SriovIBNetwork.sriovnetwork.openshift.io/default/c35"
    );
    wait_ready_condition("default", "c35", "True", "NetworkReady");
    let chained =
        ib_network("c42", "default", json!({"resourceName": "r", "metaPlugins": "{\"type\":\"rdma\"}"}));
    let answer = apply(&chained);
    objects.apply(&chained.to_string());
    assert!(answer.err.contains("rdmaIsolation: true"), "{answer:?}");
    let parsed: Value = serde_json::from_str(
        wait_network_definition("default", "c42", 30)["spec"]["config"].as_str().unwrap_or_default(),
    )
    .expect("JSON");
    assert_eq!(parsed["plugins"], json!([{"type": "ib-sriov", "rdmaIsolation": true, "ipam": {}}]));
    let message = rejection(&ib_network("c36", "default", json!({"resourceName": "r", "ipam": "{'a'}"})));
    assert!(message.contains("spec.ipam is not JSON"), "{message}");
}

// Case: operator C23, operator C38, operator C39, operator C41
#[test]
fn definition_follows_the_network_namespace() {
    let mut objects = TestObjects::default();
    let there = |target: &str| {
        ib_network("c39", "ferroband-system", json!({"resourceName": "r", "networkNamespace": target}))
    };
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
    assert!(
        rejection(&ib_network("c23", "default", json!({"resourceName": "r", "networkNamespace": "c39-a"})))
            .contains("networkNamespace")
    );
    objects.apply(&there("c39-a").to_string());
    wait_ready_condition("ferroband-system", "c39", "False", "NamespaceNotFound");
    objects.apply(&namespace("c39-a")).apply(&namespace("c39-b"));
    wait_network_definition("c39-a", "c39", 30);
    wait_ready_condition("ferroband-system", "c39", "True", "NetworkReady");
    kubectl_with(&["apply", "-f", "-"], &there("c39-b").to_string()).stdout_or_panic();
    wait_network_definition("c39-b", "c39", 30);
    wait_deleted("c39-a", "c39");
    eventually("the last network namespace is recorded", 10, || {
        let object = kubectl_get(&["sriovibnetworks", "-n", "ferroband-system", "c39"]);
        let message =
            object["metadata"]["annotations"]["operator.sriovnetwork.openshift.io/last-network-namespace"]
                .clone();
        if message == "c39-b" { Ok(()) } else { Err(message.to_string()) }
    });
    // A finalizer left by the operator must be removed by Ferroband.
    let mark = json!({"metadata": {"finalizers": ["netattdef.finalizers.sriovnetwork.openshift.io"]}});
    kubectl(&[
        "patch",
        "sriovibnetworks",
        "-n",
        "ferroband-system",
        "c39",
        "--type=merge",
        "-p",
        &mark.to_string(),
    ])
    .stdout_or_panic();
    kubectl(&["delete", "sriovibnetworks", "-n", "ferroband-system", "c39", "--timeout=60s"])
        .stdout_or_panic();
    wait_deleted("c39-b", "c39");
}
