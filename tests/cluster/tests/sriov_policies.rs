//! SR-IOV policies on a real cluster: virtual functions are created, advertised, resized and removed.

use ferroband_cluster_tests::{
    RDMA_INFINIBAND_EXAMPLES, TestObjects, document_manifests, eventually, exec_in_pod, exec_on, holds_for,
    kill_node_daemon, kubectl, kubectl_get, kubectl_with, node_names,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

const PF: &str = "0000:86:00.0";

fn allocatable(node: &str, resource: &str) -> String {
    let node = kubectl_get(&["node", node]);
    // A kubelet that has seen a resource keeps showing it with 0.
    node["status"]["allocatable"][resource].as_str().unwrap_or("0").to_string()
}

/// Waits until every node has `count` allocatable.
#[track_caller]
fn wait_allocatable(resource: &str, count: usize) {
    for node in node_names() {
        eventually(&format!("{resource}: {count} on {node}"), 120, || match allocatable(&node, resource) {
            amount if amount == count.to_string() => Ok(()),
            amount => Err(format!("{amount}; {}", state(&node)["status"]["conditions"])),
        });
    }
}

fn state(node: &str) -> Value {
    kubectl_get(&["-n", "ferroband-system", "sriovnetworknodestates.sriovnetwork.openshift.io", node])
}

/// The adapter's sriov_numvfs.
fn vf_count(node: &str) -> String {
    let path = format!("/var/lib/ferroband/sim/sys/bus/pci/devices/{PF}/sriov_numvfs");
    exec_on(node, &format!("cat {path}")).stdout_or_panic().trim().to_string()
}

/// PCI functions, RDMA devices, interfaces and Ferroband's records of the adapter.
fn traces(node: &str) -> String {
    exec_on(
        node,
        "cd /var/lib/ferroband/sim/sys && ls bus/pci/devices class/infiniband class/net; ls /var/lib/ferroband/configure; \
         ip -j link | tr , '\\n' | grep -E 'ifname|\"mtu\"' | grep -A1 ibs",
    )
    .stdout_or_panic()
}

/// The same, after an earlier test's policy is cleaned up.
fn stable_traces(node: &str) -> String {
    eventually(&format!("{node} is stable"), 90, || {
        let (count, first) = (vf_count(node), traces(node));
        thread::sleep(Duration::from_secs(2));
        match traces(node) {
            now if now == first && count == "0" => Ok(now),
            now => Err(format!("{count} functions: {now}")),
        }
    })
}

/// The simulation's creation counter and the drivers of the functions.
fn hardware_state(node: &str) -> Value {
    let text = exec_on(node, "cat /var/lib/ferroband/sim/state.json").stdout_or_panic();
    let state: Value = serde_json::from_str(&text).expect("JSON");
    let vfs = state["adapters"][0]["vfs"].as_array().cloned().unwrap_or_default();
    let bound = vfs.iter().map(|vf| vf["function"]["driver"].clone()).collect::<Vec<_>>();
    json!([state["serial"], bound])
}

fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let found = all.into_iter().find(|c| c["type"] == kind).unwrap_or_default();
    (text(&found["status"]), text(&found["reason"]), text(&found["message"]))
}

#[track_caller]
fn wait_policy_condition(namespace: &str, name: &str, kind: &str, status: &str) -> (String, String) {
    eventually(&format!("policy {name}: {kind}={status}"), 60, || {
        let policy = kubectl_get(&["-n", namespace, "sriovnetworknodepolicies", name]);
        match condition(&policy, kind) {
            (is, reason, message) if is == status => Ok((reason, message)),
            other => Err(format!("{other:?}")),
        }
    })
}

fn policy(name: &str, spec: Value) -> String {
    let mut whole = json!({
        "resourceName": name, "nodeSelector": {"kubernetes.io/os": "linux"}, "numVfs": 4,
        "nicSelector": {"pfNames": ["ibs5f0"]}, "deviceType": "netdevice", "isRdma": true, "linkType": "ib",
    });
    for (key, value) in spec.as_object().expect("fields") {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name, "namespace": "kube-system"}, "spec": whole,
    })
    .to_string()
}

/// A pod with one unit of a resource, or none.
fn holder(name: &str, node: &str, resource: Option<&str>) -> String {
    let limits = resource.map(|resource| json!({resource: "1"})).unwrap_or_else(|| json!({}));
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "busybox:1", "resources": {"limits": limits}}],
        },
    })
    .to_string()
}

/// ib-kubernetes' ConfigMap with a GUID range, deleted on drop. Daemons read it when they start.
struct GuidRangeConfigMap;

impl GuidRangeConfigMap {
    fn create(first: &str, last: &str) -> Self {
        let data = json!({"GUID_POOL_RANGE_START": first, "GUID_POOL_RANGE_END": last});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "ib-kubernetes-config", "namespace": "kube-system"},
        });
        kubectl_with(&["apply", "-f", "-"], &map.to_string()).stdout_or_panic();
        let made = Self;
        node_names().iter().for_each(|node| kill_node_daemon(node));
        made
    }
}

impl Drop for GuidRangeConfigMap {
    fn drop(&mut self) {
        kubectl(&["-n", "kube-system", "delete", "configmap", "ib-kubernetes-config"]);
        node_names().iter().for_each(|node| kill_node_daemon(node));
    }
}

#[test]
fn functions_get_stable_guids_from_the_ib_kubernetes_range() {
    let _range = GuidRangeConfigMap::create("02:00:00:00:77:00:00:10", "02:00:00:00:77:00:00:1f");
    let guids = || {
        // A function may be removed between the listing of the directory and the read of its file.
        let read = "cat /var/lib/ferroband/sim/sys/class/infiniband/*/node_guid 2>/dev/null; true";
        let of = |node: &String| exec_on(node, read).stdout_or_panic();
        let all: Vec<String> = node_names().iter().map(of).collect();
        let of_range: Vec<String> = all
            .iter()
            .flat_map(|all| all.lines())
            .filter(|guid| guid.starts_with("0200:0000:7700:001"))
            .map(str::to_owned)
            .collect();
        of_range
    };
    let made = || {
        let mut objects = TestObjects::default();
        objects.apply(&policy("ranged", json!({})));
        wait_allocatable("spidernet.io/ranged", 4);
        guids()
    };
    let first = made();
    let distinct: BTreeSet<_> = first.iter().collect();
    assert_eq!(
        (first.len(), distinct.len()),
        (12, 12),
        "four on each of three nodes, from a range of sixteen: {first:?}"
    );
    eventually("the functions are gone", 90, || match guids() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
    assert_eq!(made(), first, "recreated functions get the same GUIDs");
}

#[test]
fn document_policies_create_twelve_functions_and_leave_no_trace() {
    let before: Vec<String> = node_names().iter().map(|node| stable_traces(node)).collect();
    // Document 003 uses an onboard port's name for the adapter.
    for node in node_names() {
        exec_on(&node, "ip link property add dev ibs5f0 altname eno3np2 2>/dev/null; true").stdout_or_panic();
    }
    let first = &document_manifests("001", &RDMA_INFINIBAND_EXAMPLES)[0];
    let second = &document_manifests(
        "003",
        &[
            "ai-cluster/policy.yaml",
            "ai-cluster/network.yaml",
            "ai-cluster/partition.yaml",
            "ai-cluster/rdma-tools-values.yaml",
        ],
    )[0];
    let mut spaces = TestObjects::default();
    spaces.apply("{apiVersion: v1, kind: Namespace, metadata: {name: spiderpool}}");
    for (yaml, namespace, name, resource) in [
        (first, "kube-system", "ib-sriov", "spidernet.io/mellanoxibsriov"),
        (second, "spiderpool", "ib-eno3np2", "spidernet.io/eno3np2"),
    ] {
        let mut objects = TestObjects::default();
        objects.apply(yaml);
        wait_allocatable(resource, 12);
        wait_policy_condition(namespace, name, "Ready", "True");
        let mut guids = BTreeSet::new();
        for node in node_names() {
            assert_eq!(vf_count(&node), "12");
            let status = &state(&node)["status"];
            assert_eq!(status["syncStatus"], "Succeeded", "{status}");
            let vfs = status["interfaces"][0]["Vfs"].as_array().expect("functions").clone();
            guids.extend(vfs.iter().map(|vf| vf["guid"].as_str().expect("a GUID").to_string()));
        }
        assert_eq!(guids.len(), 12 * node_names().len(), "all GUIDs are distinct: {guids:?}");
        drop(objects);
        for (node, before) in node_names().iter().zip(&before) {
            eventually(&format!("{node} is unchanged"), 90, || match traces(node) {
                now if now == *before => Ok(()),
                now => Err(now),
            });
        }
        wait_allocatable(resource, 0);
    }
    for node in node_names() {
        exec_on(&node, "ip link property del dev ibs5f0 altname eno3np2; true").stdout_or_panic();
    }
}

#[test]
fn shrinking_evicts_nobody_and_growing_evicts_only_holders() {
    let node = node_names()[0].clone();
    let mut objects = TestObjects::default();
    let apply = |spec: Value| kubectl_with(&["apply", "-f", "-"], &policy("grown", spec)).stdout_or_panic();
    objects.apply(&policy("grown", json!({"numVfs": 8})));
    wait_allocatable("spidernet.io/grown", 8);
    objects.apply(&holder("holder", &node, Some("spidernet.io/grown")));
    objects.apply(&holder("bystander", &node, None));
    let (holder_pod, bystander_pod) = (objects.wait_ready("holder", 90), objects.wait_ready("bystander", 90));
    let file = exec_in_pod("holder", "ls /dev/infiniband").stdout_or_panic();
    assert!(file.contains("uverbs"), "{file}");

    // 8 to 4: the hardware is not changed.
    let hardware = || hardware_state(&node);
    let untouched = hardware();
    apply(json!({"numVfs": 4}));
    let other = node_names().pop().expect("a node");
    eventually("4 are allocatable on another node", 60, || match allocatable(&other, "spidernet.io/grown") {
        amount if amount == "4" => Ok(()),
        amount => Err(amount),
    });
    eventually("the node state is synced", 60, || match state(&node)["status"]["syncStatus"].as_str() {
        Some("Succeeded") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    holds_for("no pod is evicted", 5, || {
        let now = kubectl_get(&["pod", "holder"]);
        let idle =
            state(&node)["metadata"]["annotations"]["sriovnetwork.openshift.io/desired-state"] == "Idle";
        if now["metadata"]["uid"] == holder_pod["metadata"]["uid"] && idle {
            Ok(())
        } else {
            Err(now.to_string())
        }
    });
    assert_eq!((vf_count(&node).as_str(), hardware()), ("8", untouched));

    // 4 to 12: only the holder is evicted.
    apply(json!({"numVfs": 12}));
    eventually("the holder is gone", 90, || {
        let output = kubectl(&["get", "pod", "holder", "--ignore-not-found", "-o", "name"]).stdout_or_panic();
        if output.trim().is_empty() { Ok(()) } else { Err(state(&node)["status"].to_string()) }
    });
    wait_allocatable("spidernet.io/grown", 12);
    assert_eq!(kubectl_get(&["pod", "bystander"])["metadata"]["uid"], bystander_pod["metadata"]["uid"]);
    assert_ne!(kubectl_get(&["node", &node])["spec"]["unschedulable"], true);
    let annotations = eventually("the drain is over", 30, || {
        let annotations = state(&node)["metadata"]["annotations"].clone();
        match annotations["sriovnetwork.openshift.io/current-state"].as_str() {
            Some("Idle") => Ok(annotations),
            _ => Err(annotations.to_string()),
        }
    });
    assert_eq!(annotations["sriovnetwork.openshift.io/desired-state"], "Idle");
    drop(objects);
    wait_allocatable("spidernet.io/grown", 0);
}

/// Dry-run creation of a policy.
fn try_create(spec: Value) -> Result<(), String> {
    let output = kubectl_with(&["create", "--dry-run=server", "-f", "-"], &policy("tried", spec));
    if output.ok { Ok(()) } else { Err(output.err) }
}

#[track_caller]
fn assert_rejected(spec: Value, field: &str) {
    match try_create(spec.clone()) {
        Err(why) if why.contains(field) => {}
        other => panic!("{spec}: {other:?}"),
    }
}

// Case: operator C04, operator C06, operator C07, operator C08, operator C17, operator C19, operator C20
#[test]
fn api_server_rejects_invalid_policies() {
    assert_rejected(json!({"deviceType": "vfio-pci", "isRdma": true, "linkType": null}), "spec.isRdma"); // C04
    let named = |name: &str| json!({"numVfs": 4, "nicSelector": {"pfNames": [name]}});
    try_create(named("ibs1#0-3")).expect("C06");
    for wrong in ["ibs1#0-4", "ibs1#3-1", "ibs1#2", "ibs1#a-b", "a#0-1#2"] {
        assert_rejected(named(wrong), "spec.nicSelector.pfNames");
    }
    for right in ["ib_vfs", "ib-vfs"] {
        try_create(json!({"resourceName": right})).expect("C07");
    }
    let long = "a".repeat(64);
    for wrong in ["-ib", "ib_", "ib.vfs", &long, ""] {
        assert_rejected(json!({"resourceName": wrong}), "resourceName");
    }
    assert_rejected(json!({"numVfs": 0}), "spec.numVfs"); // C08
    assert_rejected(json!({"nicSelector": {}}), "spec.nicSelector");
    assert_rejected(json!({"eSwitchMode": "switchdev", "linkType": "ib"}), "spec.eSwitchMode"); // C19
    assert_rejected(
        json!({"nicSelector": {"netFilter": "aws/NetworkID:a", "vendor": "15b3"}, "linkType": "eth"}),
        "netFilter",
    ); // C20
    assert_rejected(json!({"nicSelector": {"netFilter": "aws/NetworkID:a"}, "linkType": "ib"}), "netFilter");
    for word in ["ib", "infiniBand"] {
        try_create(json!({"deviceType": word, "linkType": null})).expect("document 004");
    }
    // The `default` policy of old operator versions is ignored.
    let mut leftover: Value =
        serde_json::from_str(&policy("default", json!({"resourceName": "", "numVfs": 0}))).expect("JSON");
    leftover["spec"]["nicSelector"] = json!({});
    kubectl_with(&["create", "--dry-run=server", "-f", "-"], &leftover.to_string()).stdout_or_panic();
}

// Case: operator C21, operator C22
#[test]
fn api_server_validates_pool_and_operator_config() {
    let create = |kind: &str, name: &str, spec: Value| {
        let object = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "ferroband-system"}, "spec": spec,
        });
        kubectl_with(&["create", "--dry-run=server", "-f", "-"], &object.to_string())
    };
    assert!(!create("SriovOperatorConfig", "x", json!({})).ok);
    create("SriovOperatorConfig", "default", json!({})).stdout_or_panic();
    for wrong in [json!("150%"), json!("0%"), json!("two"), json!(-1)] {
        let output = create("SriovNetworkPoolConfig", "p", json!({"maxUnavailable": wrong}));
        assert!(!output.ok && output.err.contains("maxUnavailable"), "{wrong}: {output:?}");
    }
    for right in [json!({"maxUnavailable": "50%"}), json!({"maxUnavailable": 3}), json!({})] {
        create("SriovNetworkPoolConfig", "p", right).stdout_or_panic();
    }
}

// Case: operator C10, operator C11, operator C17
#[test]
fn conflicting_and_unmatched_policies_are_reported_and_working_ones_stay() {
    let mut objects = TestObjects::default();
    let ranged = |name: &str, range: &str| {
        policy(name, json!({"numVfs": 8, "nicSelector": {"pfNames": [format!("ibs5f0#{range}")]}}))
    };
    objects.apply(&ranged("works", "0-3"));
    wait_allocatable("spidernet.io/works", 4);
    objects.apply(&ranged("overlaps", "3-7"));
    let (reason, message) = wait_policy_condition("kube-system", "overlaps", "Accepted", "False");
    assert!(
        reason == "Conflict" && message.contains("kube-system/works") && message.contains("pfNames"),
        "{message}"
    );
    objects.apply(&policy("nowhere", json!({"nodeSelector": {"no": "such-label"}})));
    assert_eq!(wait_policy_condition("kube-system", "nowhere", "Matched", "False").0, "NoNode");
    objects.apply(&policy("nothing", json!({"nicSelector": {"vendor": "15b3", "pfNames": ["ens1"]}})));
    let (reason, message) = wait_policy_condition("kube-system", "nothing", "Matched", "False");
    assert!(reason == "NoNic" && message.contains("ibs5f0 (15b3:1017 at 0000:86:00.0)"), "{message}");
    objects.apply(&policy("works", json!({})).replace("kube-system", "default"));
    assert_eq!(wait_policy_condition("default", "works", "Accepted", "False").0, "OtherNamespace");
    let events = eventually("an event reports the conflict", 30, || {
        let output = kubectl(&[
            "-n",
            "kube-system",
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=overlaps",
        ])
        .out;
        if output.contains("Conflict") { Ok(output) } else { Err(output) }
    });
    assert!(events.contains("works"));
    // The working policy is not affected.
    wait_policy_condition("kube-system", "works", "Ready", "True");
    assert_eq!(allocatable(&node_names()[0], "spidernet.io/works"), "4");
    drop(objects);
    wait_allocatable("spidernet.io/works", 0);
}
