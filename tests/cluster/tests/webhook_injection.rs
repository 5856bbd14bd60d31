//! What the webhook fills in, on the real API server. Most of it is asked with a dry run: admission is the same, and
//! nothing has to start.

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

fn asked(pod: &Value) -> LabOutput {
    kubectl_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string())
}

fn filled(pod: &Value) -> Value {
    serde_json::from_str(&asked(pod).stdout_or_panic()).expect("kubectl prints JSON")
}

/// Wait until the replica that is asked knows the networks: its caches are a moment behind.
fn settled(pod: &Value, good: impl Fn(&Value) -> bool) -> Value {
    eventually("the pod filled in", 30, || {
        let answer = asked(pod);
        let seen: Value = serde_json::from_str(&answer.out).map_err(|_| answer.err)?;
        if good(&seen) { Ok(seen) } else { Err(seen.to_string()) }
    })
}

fn limits(pod: &Value) -> Value {
    pod["spec"]["containers"][0]["resources"]["limits"].clone()
}

#[test]
fn m18_m19_m20_m21_m22_groups_of_networks() {
    let mut objects = TestObjects::default();
    for number in [10, 2, 1, 9] {
        objects.apply(&rail(&format!("gpu{number}"), &format!("spidernet.io/gpu{number}"), "m18"));
    }
    objects.apply(&rail("twin-a", "spidernet.io/twin", "m20")).apply(&rail(
        "twin-b",
        "spidernet.io/twin",
        "m20",
    ));
    let eight = settled(&pod(json!({GROUP: "m18"}), json!({})), |seen| {
        limits(seen).as_object().is_some_and(|l| l.len() == 4)
    });
    assert_eq!(
        eight["metadata"]["annotations"][NETWORKS],
        "default/gpu1,default/gpu2,default/gpu9,default/gpu10"
    );
    assert_eq!(limits(&eight)["spidernet.io/gpu10"], "1");
    assert_eq!(eight["spec"]["containers"][0]["resources"]["requests"], limits(&eight));
    assert_eq!(eight["spec"]["containers"][1]["resources"], json!({}));

    let twins =
        settled(&pod(json!({GROUP: "m20"}), json!({})), |seen| limits(seen)["spidernet.io/twin"] == "2");
    assert_eq!(twins["metadata"]["annotations"][NETWORKS], "default/twin-a,default/twin-b");

    let written = json!({"limits": {"spidernet.io/gpu2": "3"}});
    let own = filled(&pod(json!({GROUP: "m18", NETWORKS: "default/gpu9@ib9"}), written));
    assert_eq!(limits(&own)["spidernet.io/gpu2"], "3");
    assert_eq!(
        own["metadata"]["annotations"][NETWORKS],
        "default/gpu9@ib9,default/gpu1,default/gpu2,default/gpu10"
    );

    let nobody = asked(&pod(json!({GROUP: "m22-nobody"}), json!({})));
    assert!(!nobody.ok && nobody.err.contains("m22-nobody"), "{nobody:?}");
}

#[test]
fn m24_the_namespaces_group_counts_where_the_pod_says_none() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("ns-rail", "spidernet.io/nsrail", "m24")).apply(&rail(
        "own-rail",
        "spidernet.io/ownrail",
        "m24-own",
    ));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "m24", "annotations": {GROUP: "m24"}}});
    objects.apply(&namespace.to_string());
    let mut plain = pod(json!({}), json!({}));
    plain["metadata"]["namespace"] = json!("m24");
    settled(&plain, |seen| limits(seen)["spidernet.io/nsrail"] == "1");
    plain["metadata"]["annotations"] = json!({GROUP: "m24-own"});
    let own = settled(&plain, |seen| limits(seen)["spidernet.io/ownrail"] == "1");
    assert_eq!(limits(&own).get("spidernet.io/nsrail"), None);
}

#[test]
fn networks_by_annotation_get_their_resources_counted_and_the_author_is_told_what_is_missing() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("ann-a", "spidernet.io/anna", "ann")).apply(&rail(
        "ann-b",
        "spidernet.io/anna",
        "ann",
    ));
    let listed = r#"[{"name":"ann-a"},{"name":"ann-b"},{"name":"ann-a","interface":"ib7"}]"#;
    settled(&pod(json!({NETWORKS: listed}), json!({})), |seen| limits(seen)["spidernet.io/anna"] == "3");
    settled(&pod(json!({"v1.multus-cni.io/default-network": "default/ann-a"}), json!({})), |seen| {
        limits(seen)["spidernet.io/anna"] == "1"
    });
    let few = asked(&pod(json!({NETWORKS: "ann-a,ann-b"}), json!({"limits": {"spidernet.io/anna": "1"}})));
    assert!(few.ok && few.err.contains("need 2 of spidernet.io/anna"), "{few:?}");
    let unknown = asked(&pod(json!({NETWORKS: "not-there"}), json!({})));
    assert!(unknown.ok && unknown.err.contains("default/not-there is not defined"), "{unknown:?}");
    let broken = asked(&pod(json!({NETWORKS: "[{"}), json!({})));
    assert!(broken.ok && broken.err.contains("k8s.v1.cni.cncf.io/networks"), "{broken:?}");
}

#[test]
fn m23_without_the_webhook_others_start_and_those_concerned_are_told_what_to_do() {
    let mut objects = TestObjects::default();
    objects.apply(&rail("down-rail", "spidernet.io/downrail", "m23"));
    let mut concerned = pod(json!({NETWORKS: "down-rail"}), json!({}));
    settled(&concerned, |seen| limits(seen)["spidernet.io/downrail"] == "1");
    let scale = |replicas: &str| {
        let deployment = "deployment/ferroband-cluster";
        kubectl(&["-n", "ferroband-system", "scale", deployment, "--replicas", replicas]).stdout_or_panic();
    };
    let _back = RestoreReplicas;
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
    eventually("an event that says what to do", 90, || {
        let seen = kubectl(&[
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=m23-concerned",
            "-o",
            "json",
        ])
        .stdout_or_panic();
        if seen.contains("recreate the pod") && seen.contains("spidernet.io/downrail") {
            Ok(())
        } else {
            Err(seen)
        }
    });
}

/// The cluster daemon comes back, however the test ends.
struct RestoreReplicas;

impl Drop for RestoreReplicas {
    fn drop(&mut self) {
        let run = |args: &[&str]| kubectl(&[&["-n", "ferroband-system"], args].concat());
        run(&["scale", "deployment/ferroband-cluster", "--replicas", "2"]);
        run(&["rollout", "status", "deployment/ferroband-cluster", "--timeout=120s"]);
    }
}
