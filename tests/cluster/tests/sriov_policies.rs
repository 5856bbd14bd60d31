//! Policies on a real cluster: virtual functions come, are offered, grow, shrink and go.

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
    // A kubelet that has heard of a resource shows it at zero for ever.
    node["status"]["allocatable"][resource].as_str().unwrap_or("0").to_string()
}

/// Waits until every node offers so many.
#[track_caller]
fn offered(resource: &str, count: usize) {
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

/// How many functions the adapter has, by sysfs.
fn functions(node: &str) -> String {
    let path = format!("/var/lib/ferroband/sim/sys/bus/pci/devices/{PF}/sriov_numvfs");
    exec_on(node, &format!("cat {path}")).stdout_or_panic().trim().to_string()
}

/// All that is there of the adapter: functions on the bus, RDMA devices, interfaces, our records.
fn traces(node: &str) -> String {
    exec_on(
        node,
        "cd /var/lib/ferroband/sim/sys && ls bus/pci/devices class/infiniband class/net; ls /var/lib/ferroband/configure; \
         ip -j link | tr , '\\n' | grep -E 'ifname|\"mtu\"' | grep -A1 ibs",
    )
    .stdout_or_panic()
}

/// The same once nothing is left of an earlier test's policy.
fn traces_at_rest(node: &str) -> String {
    eventually(&format!("{node} is at rest"), 90, || {
        let (count, first) = (functions(node), traces(node));
        thread::sleep(Duration::from_secs(2));
        match traces(node) {
            now if now == first && count == "0" => Ok(now),
            now => Err(format!("{count} functions: {now}")),
        }
    })
}

/// What is counted whenever a function or a device is made, and what they are bound to.
fn made(node: &str) -> Value {
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
fn policy_says(namespace: &str, name: &str, kind: &str, status: &str) -> (String, String) {
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

/// A pod that holds so many of a resource.
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

/// The range of GUIDs that ib-kubernetes' ConfigMap names, for as long as this lives. Daemons read it when they start.
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
fn functions_have_guids_of_the_range_that_ib_kubernetes_names_and_keep_them() {
    let _range = GuidRangeConfigMap::create("02:00:00:00:77:00:00:10", "02:00:00:00:77:00:00:1f");
    let guids = || {
        let of = |node: &String| {
            exec_on(node, "cat /var/lib/ferroband/sim/sys/class/infiniband/*/node_guid").stdout_or_panic()
        };
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
        offered("spidernet.io/ranged", 4);
        guids()
    };
    let first = made();
    let distinct: BTreeSet<_> = first.iter().collect();
    assert_eq!((first.len(), distinct.len()), (12, 12), "four on each of three nodes, of sixteen: {first:?}");
    eventually("the functions are gone", 90, || match guids() {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?}")),
    });
    assert_eq!(made(), first, "made again, they are the same");
}

#[test]
fn the_documents_policies_make_twelve_functions_and_leave_no_trace() {
    let before: Vec<String> = node_names().iter().map(|node| traces_at_rest(node)).collect();
    // The adapter of the second document has an onboard port's name.
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
        offered(resource, 12);
        policy_says(namespace, name, "Ready", "True");
        let mut guids = BTreeSet::new();
        for node in node_names() {
            assert_eq!(functions(&node), "12");
            let status = &state(&node)["status"];
            assert_eq!(status["syncStatus"], "Succeeded", "{status}");
            let vfs = status["interfaces"][0]["Vfs"].as_array().expect("functions").clone();
            guids.extend(vfs.iter().map(|vf| vf["guid"].as_str().expect("a GUID").to_string()));
        }
        assert_eq!(guids.len(), 12 * node_names().len(), "no GUID twice: {guids:?}");
        drop(objects);
        for (node, before) in node_names().iter().zip(&before) {
            eventually(&format!("{node} is as before"), 90, || match traces(node) {
                now if now == *before => Ok(()),
                now => Err(now),
            });
        }
        offered(resource, 0);
    }
    for node in node_names() {
        exec_on(&node, "ip link property del dev ibs5f0 altname eno3np2; true").stdout_or_panic();
    }
}

#[test]
fn fewer_functions_disturb_nobody_and_more_only_their_holders() {
    let node = node_names()[0].clone();
    let mut objects = TestObjects::default();
    let apply = |spec: Value| kubectl_with(&["apply", "-f", "-"], &policy("grown", spec)).stdout_or_panic();
    objects.apply(&policy("grown", json!({"numVfs": 8})));
    offered("spidernet.io/grown", 8);
    objects.apply(&holder("holder", &node, Some("spidernet.io/grown")));
    objects.apply(&holder("bystander", &node, None));
    let (held, near) = (objects.wait_ready("holder", 90), objects.wait_ready("bystander", 90));
    let file = exec_in_pod("holder", "ls /dev/infiniband").stdout_or_panic();
    assert!(file.contains("uverbs"), "{file}");

    // 8 to 4: the machine is not touched.
    let hardware = || made(&node);
    let untouched = hardware();
    apply(json!({"numVfs": 4}));
    let other = node_names().pop().expect("a node");
    eventually("4 are offered elsewhere", 60, || match allocatable(&other, "spidernet.io/grown") {
        amount if amount == "4" => Ok(()),
        amount => Err(amount),
    });
    eventually("the state is told", 60, || match state(&node)["status"]["syncStatus"].as_str() {
        Some("Succeeded") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    holds_for("nobody is drained", 5, || {
        let now = kubectl_get(&["pod", "holder"]);
        let idle =
            state(&node)["metadata"]["annotations"]["sriovnetwork.openshift.io/desired-state"] == "Idle";
        if now["metadata"]["uid"] == held["metadata"]["uid"] && idle { Ok(()) } else { Err(now.to_string()) }
    });
    assert_eq!((functions(&node).as_str(), hardware()), ("8", untouched));

    // 4 to 12: the holder goes first, and nobody else.
    apply(json!({"numVfs": 12}));
    eventually("the holder is gone", 90, || {
        let seen = kubectl(&["get", "pod", "holder", "--ignore-not-found", "-o", "name"]).stdout_or_panic();
        if seen.trim().is_empty() { Ok(()) } else { Err(state(&node)["status"].to_string()) }
    });
    offered("spidernet.io/grown", 12);
    assert_eq!(kubectl_get(&["pod", "bystander"])["metadata"]["uid"], near["metadata"]["uid"]);
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
    offered("spidernet.io/grown", 0);
}

/// What the API server says to a policy.
fn admitted(spec: Value) -> Result<(), String> {
    let seen = kubectl_with(&["create", "--dry-run=server", "-f", "-"], &policy("judged", spec));
    if seen.ok { Ok(()) } else { Err(seen.err) }
}

#[track_caller]
fn denied(spec: Value, field: &str) {
    match admitted(spec.clone()) {
        Err(why) if why.contains(field) => {}
        other => panic!("{spec}: {other:?}"),
    }
}

#[test]
fn c04_c06_c07_c19_c20_the_api_server_refuses_what_cannot_be() {
    denied(json!({"deviceType": "vfio-pci", "isRdma": true, "linkType": null}), "spec.isRdma"); // C04
    let named = |name: &str| json!({"numVfs": 4, "nicSelector": {"pfNames": [name]}});
    admitted(named("ibs1#0-3")).expect("C06");
    for wrong in ["ibs1#0-4", "ibs1#3-1", "ibs1#2", "ibs1#a-b", "a#0-1#2"] {
        denied(named(wrong), "spec.nicSelector.pfNames");
    }
    for right in ["ib_vfs", "ib-vfs"] {
        admitted(json!({"resourceName": right})).expect("C07");
    }
    let long = "a".repeat(64);
    for wrong in ["-ib", "ib_", "ib.vfs", &long, ""] {
        denied(json!({"resourceName": wrong}), "resourceName");
    }
    denied(json!({"numVfs": 0}), "spec.numVfs"); // C08
    denied(json!({"nicSelector": {}}), "spec.nicSelector");
    denied(json!({"eSwitchMode": "switchdev", "linkType": "ib"}), "spec.eSwitchMode"); // C19
    denied(
        json!({"nicSelector": {"netFilter": "aws/NetworkID:a", "vendor": "15b3"}, "linkType": "eth"}),
        "netFilter",
    ); // C20
    denied(json!({"nicSelector": {"netFilter": "aws/NetworkID:a"}, "linkType": "ib"}), "netFilter");
    for word in ["ib", "infiniBand"] {
        admitted(json!({"deviceType": word, "linkType": null})).expect("seed 004");
    }
    // C17: a leftover of old operators is not looked at.
    let mut leftover: Value =
        serde_json::from_str(&policy("default", json!({"resourceName": "", "numVfs": 0}))).expect("JSON");
    leftover["spec"]["nicSelector"] = json!({});
    kubectl_with(&["create", "--dry-run=server", "-f", "-"], &leftover.to_string()).stdout_or_panic();
}

#[test]
fn c21_c22_pools_and_settings() {
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
        let seen = create("SriovNetworkPoolConfig", "p", json!({"maxUnavailable": wrong}));
        assert!(!seen.ok && seen.err.contains("maxUnavailable"), "{wrong}: {seen:?}");
    }
    for right in [json!({"maxUnavailable": "50%"}), json!({"maxUnavailable": 3}), json!({})] {
        create("SriovNetworkPoolConfig", "p", right).stdout_or_panic();
    }
}

#[test]
fn c10_c11_c17_what_cannot_be_is_told_and_what_works_keeps_working() {
    let mut objects = TestObjects::default();
    let ranged = |name: &str, range: &str| {
        policy(name, json!({"numVfs": 8, "nicSelector": {"pfNames": [format!("ibs5f0#{range}")]}}))
    };
    objects.apply(&ranged("works", "0-3"));
    offered("spidernet.io/works", 4);
    objects.apply(&ranged("overlaps", "3-7"));
    let (reason, message) = policy_says("kube-system", "overlaps", "Accepted", "False");
    assert!(
        reason == "Conflict" && message.contains("kube-system/works") && message.contains("pfNames"),
        "{message}"
    );
    objects.apply(&policy("nowhere", json!({"nodeSelector": {"no": "such-label"}})));
    assert_eq!(policy_says("kube-system", "nowhere", "Matched", "False").0, "NoNode");
    objects.apply(&policy("nothing", json!({"nicSelector": {"vendor": "15b3", "pfNames": ["ens1"]}})));
    let (reason, message) = policy_says("kube-system", "nothing", "Matched", "False");
    assert!(reason == "NoNic" && message.contains("ibs5f0 (15b3:1017 at 0000:86:00.0)"), "{message}");
    objects.apply(&policy("works", json!({})).replace("kube-system", "default"));
    assert_eq!(policy_says("default", "works", "Accepted", "False").0, "OtherNamespace");
    let told = eventually("an event tells it", 30, || {
        let seen = kubectl(&[
            "-n",
            "kube-system",
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=overlaps",
        ])
        .out;
        if seen.contains("Conflict") { Ok(seen) } else { Err(seen) }
    });
    assert!(told.contains("works"));
    // Too many for the adapter, and no firmware to ask: the node says it, and the others go on.
    policy_says("kube-system", "works", "Ready", "True");
    assert_eq!(allocatable(&node_names()[0], "spidernet.io/works"), "4");
    drop(objects);
    offered("spidernet.io/works", 0);
}
