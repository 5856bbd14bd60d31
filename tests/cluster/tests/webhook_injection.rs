//! Injection by the webhook on a real API server. Most tests use a dry run: admission is the same, and no pod has to
//! start.

use ferroband_cluster_tests::{
    LabOutput, TestObjects, eventually, kubectl, kubectl_get, kubectl_with, node_names,
};
use serde_json::{Value, json};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const GROUP: &str = "cni.spidernet.io/rdma-resource-inject";

fn rail(name: &str, resource: &str, group: &str) -> String {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
        "metadata": {"name": name, "annotations": {GROUP: group}},
        "spec": {"cniType": "ib-sriov", "ibsriov": {"resourceName": resource, "ippools": {"ipv4": ["p"]}}},
    })
    .to_string()
}

fn pod(annotations: Value, resources: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "injected", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "busybox:1", "resources": resources}, {"name": "d", "image": "busybox:1"}]},
    })
}

fn dry_run(pod: &Value) -> LabOutput {
    kubectl_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string())
}

fn injected(pod: &Value) -> Value {
    serde_json::from_str(&dry_run(pod).stdout_or_panic()).expect("kubectl prints JSON")
}

/// Retries the dry run until the result matches: the caches of the webhook's replicas lag behind.
fn eventually_injected(pod: &Value, matches: impl Fn(&Value) -> bool) -> Value {
    eventually("the pod is injected", 30, || {
        let answer = dry_run(pod);
        let injected_pod: Value = serde_json::from_str(&answer.out).map_err(|_| answer.err)?;
        if matches(&injected_pod) { Ok(injected_pod) } else { Err(injected_pod.to_string()) }
    })
}

fn limits(pod: &Value) -> Value {
    pod["spec"]["containers"][0]["resources"]["limits"].clone()
}

// Case: ipam M18, ipam M19, ipam M20, ipam M21, ipam M22
#[test]
fn network_group_annotation_injects_networks_and_resources() {
    let mut objects = TestObjects::default();
    for number in [10, 2, 1, 9] {
        objects.apply(&rail(&format!("gpu{number}"), &format!("spidernet.io/gpu{number}"), "m18"));
    }
    objects.apply(&rail("twin-a", "spidernet.io/twin", "m20")).apply(&rail(
        "twin-b",
        "spidernet.io/twin",
        "m20",
    ));
    let eight = eventually_injected(&pod(json!({GROUP: "m18"}), json!({})), |injected_pod| {
        limits(injected_pod).as_object().is_some_and(|l| l.len() == 4)
    });
    assert_eq!(
        eight["metadata"]["annotations"][NETWORKS],
        "default/gpu1,default/gpu2,default/gpu9,default/gpu10"
    );
    assert_eq!(limits(&eight)["spidernet.io/gpu10"], "1");
    assert_eq!(eight["spec"]["containers"][0]["resources"]["requests"], limits(&eight));
    assert_eq!(eight["spec"]["containers"][1]["resources"], json!({}));

    let twins = eventually_injected(&pod(json!({GROUP: "m20"}), json!({})), |injected_pod| {
        limits(injected_pod)["spidernet.io/twin"] == "2"
    });
    assert_eq!(twins["metadata"]["annotations"][NETWORKS], "default/twin-a,default/twin-b");

    let written = json!({"limits": {"spidernet.io/gpu2": "3"}});
    let own = injected(&pod(json!({GROUP: "m18", NETWORKS: "default/gpu9@ib9"}), written));
    assert_eq!(limits(&own)["spidernet.io/gpu2"], "3");
    assert_eq!(
        own["metadata"]["annotations"][NETWORKS],
        "default/gpu9@ib9,default/gpu1,default/gpu2,default/gpu10"
    );

    let unmatched = dry_run(&pod(json!({GROUP: "m22-nobody"}), json!({})));
    assert!(!unmatched.ok && unmatched.err.contains("m22-nobody"), "{unmatched:?}");
}

// Case: ipam M24
#[test]
fn namespace_group_applies_unless_the_pod_has_its_own() {
    let mut objects = TestObjects::default();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "m24", "annotations": {GROUP: "m24"}}});
    objects.apply(&namespace.to_string());
    // A group has networks of the pod's own and of trusted namespaces only.
    for (name, resource, group) in
        [("ns-rail", "spidernet.io/nsrail", "m24"), ("own-rail", "spidernet.io/ownrail", "m24-own")]
    {
        let mut rail: Value = serde_json::from_str(&rail(name, resource, group)).expect("JSON");
        rail["metadata"]["namespace"] = json!("m24");
        objects.apply(&rail.to_string());
    }
    let mut plain = pod(json!({}), json!({}));
    plain["metadata"]["namespace"] = json!("m24");
    eventually_injected(&plain, |injected_pod| limits(injected_pod)["spidernet.io/nsrail"] == "1");
    plain["metadata"]["annotations"] = json!({GROUP: "m24-own"});
    let own = eventually_injected(&plain, |injected_pod| limits(injected_pod)["spidernet.io/ownrail"] == "1");
    assert_eq!(limits(&own).get("spidernet.io/nsrail"), None);
}

#[test]
fn networks_annotation_injects_resources_and_warns_about_mistakes() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("ann-a", "spidernet.io/anna", "ann")).apply(&rail(
        "ann-b",
        "spidernet.io/anna",
        "ann",
    ));
    let listed = r#"[{"name":"ann-a"},{"name":"ann-b"},{"name":"ann-a","interface":"ib7"}]"#;
    eventually_injected(&pod(json!({NETWORKS: listed}), json!({})), |injected_pod| {
        limits(injected_pod)["spidernet.io/anna"] == "3"
    });
    eventually_injected(
        &pod(json!({"v1.multus-cni.io/default-network": "default/ann-a"}), json!({})),
        |injected_pod| limits(injected_pod)["spidernet.io/anna"] == "1",
    );
    let few = dry_run(&pod(json!({NETWORKS: "ann-a,ann-b"}), json!({"limits": {"spidernet.io/anna": "1"}})));
    assert!(few.ok && few.err.contains("need 2 of spidernet.io/anna"), "{few:?}");
    let unknown = dry_run(&pod(json!({NETWORKS: "not-there"}), json!({})));
    assert!(unknown.ok && unknown.err.contains("default/not-there does not exist"), "{unknown:?}");
    let mistyped = dry_run(&pod(json!({"k8s.v1.cni.cncf.io/network": "ann-a"}), json!({})));
    assert!(mistyped.ok && mistyped.err.contains("use the key k8s.v1.cni.cncf.io/networks"), "{mistyped:?}");
    let broken = dry_run(&pod(json!({NETWORKS: "[{"}), json!({})));
    assert!(broken.ok && broken.err.contains("k8s.v1.cni.cncf.io/networks"), "{broken:?}");
}

#[test]
fn a_resource_claim_template_is_not_requested_as_a_limit() {
    let mut objects = TestObjects::default();
    let network = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "by-claim", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "vf-template"}},
        "spec": {"config": json!({"cniVersion": "1.0.0", "type": "ib-sriov"}).to_string()},
    });
    objects.apply(&network.to_string());
    let created = eventually("the webhook's warning", 30, || {
        let created = dry_run(&pod(json!({NETWORKS: "by-claim"}), json!({})));
        if created.err.contains("vf-template") { Ok(created) } else { Err(format!("{created:?}")) }
    });
    assert!(created.ok, "the pod is valid: {created:?}");
    let created: Value = serde_json::from_str(&created.out).expect("kubectl prints JSON");
    assert_eq!(limits(&created), Value::Null);
}

#[test]
fn a_deleted_webhook_configuration_is_restored() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("restored-rail", "spidernet.io/restored", "restored"));
    let concerned = pod(json!({NETWORKS: "restored-rail"}), json!({}));
    eventually_injected(&concerned, |injected_pod| limits(injected_pod)["spidernet.io/restored"] == "1");
    kubectl(&["delete", "mutatingwebhookconfigurations", "ferroband-webhook"]).stdout_or_panic();
    assert_eq!(limits(&injected(&concerned)), Value::Null);
    eventually("the configuration is restored", 120, || {
        let found = kubectl(&["get", "mutatingwebhookconfigurations", "ferroband-webhook"]);
        if found.ok { Ok(()) } else { Err(found.err) }
    });
    eventually_injected(&concerned, |injected_pod| limits(injected_pod)["spidernet.io/restored"] == "1");
}

// Case: ipam M23
#[test]
fn without_the_webhook_other_pods_start_and_affected_pods_get_an_event() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("down-rail", "spidernet.io/downrail", "m23"));
    let mut concerned = pod(json!({NETWORKS: "down-rail"}), json!({}));
    eventually_injected(&concerned, |events| limits(events)["spidernet.io/downrail"] == "1");
    let scale = |replicas: &str| {
        let deployment = "deployment/ferroband-cluster";
        kubectl(&["-n", "ferroband-system", "scale", deployment, "--replicas", replicas]).stdout_or_panic();
    };
    let _restore = RestoreReplicas;
    scale("0");
    eventually("no replica", 60, || {
        let endpoints =
            kubectl_get(&["pods", "-n", "ferroband-system", "-l", "app.kubernetes.io/component=cluster"]);
        if endpoints["items"].as_array().is_some_and(Vec::is_empty) {
            Ok(())
        } else {
            Err("still there".to_owned())
        }
    });
    objects.apply_pod("m23-unrelated", &node_names()[0]);
    objects.wait_ready("m23-unrelated", 60);
    concerned["metadata"]["name"] = json!("m23-concerned");
    concerned["spec"]["nodeName"] = json!(node_names()[0]);
    concerned["spec"]["terminationGracePeriodSeconds"] = json!(0);
    objects.apply(&concerned.to_string());
    assert_eq!(limits(&kubectl_get(&["pod", "m23-concerned"])), Value::Null);
    eventually("an event with the remedy", 90, || {
        let events = kubectl(&[
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=m23-concerned",
            "-o",
            "json",
        ])
        .stdout_or_panic();
        if events.contains("recreate the pod") && events.contains("spidernet.io/downrail") {
            Ok(())
        } else {
            Err(events)
        }
    });
}

/// Scales the cluster daemon up again on drop.
struct RestoreReplicas;

impl Drop for RestoreReplicas {
    fn drop(&mut self) {
        let run = |args: &[&str]| kubectl(&[&["-n", "ferroband-system"], args].concat());
        run(&["scale", "deployment/ferroband-cluster", "--replicas", "2"]);
        run(&["rollout", "status", "deployment/ferroband-cluster", "--timeout=120s"]);
    }
}
