//! Attacks with the stolen account of one node: nothing of other nodes changes, and of its own node only what the
//! daemon itself writes.

use ferroband_cluster_tests::node_account::{NodeAccount, assert_all_refused, attack};
use ferroband_cluster_tests::{
    TestObjects, kubectl, kubectl_get, network_definition, node_names, wait_pod_ready,
};
use serde_json::{Value, json};

/// What other programs trust in a Node. Conditions and counters of the kubelet change all the time.
fn node_facts(node: &str) -> Value {
    let node = kubectl_get(&["node", node]);
    let condition = |condition: &Value| json!([condition["type"], condition["status"], condition["reason"]]);
    let conditions: Vec<Value> =
        node["status"]["conditions"].as_array().into_iter().flatten().map(condition).collect();
    let metadata = &node["metadata"];
    json!([
        metadata["labels"],
        metadata["annotations"],
        metadata["finalizers"],
        metadata["ownerReferences"],
        node["spec"],
        node["status"]["capacity"],
        node["status"]["addresses"],
        conditions,
    ])
}

/// What other programs trust in a pod.
fn pod_facts(pod: &str) -> Value {
    let pod = kubectl_get(&["pod", pod]);
    let metadata = &pod["metadata"];
    json!([
        metadata["labels"],
        metadata["annotations"],
        metadata["finalizers"],
        metadata["ownerReferences"],
        pod["spec"],
        pod["status"]["podIPs"],
        pod["status"]["phase"],
        pod["status"]["conditions"],
    ])
}

#[test]
fn hostile_node_account_changes_no_label_taint_or_status_of_nodes() {
    let nodes = node_names();
    let account = NodeAccount::of_node(&nodes[0]);
    let [own, other] = [&nodes[0], &nodes[1]].map(|node| format!("/api/v1/nodes/{node}"));
    let status = |path: &str| format!("{path}/status");
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let label_rule = "may change no label but";
    let spec_rule = "may not change taints";
    let taint = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Forged",
        "message": "", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
    let attacks = [
        attack(
            "becomes a control plane node",
            "PATCH",
            &own,
            labels(json!({"node-role.kubernetes.io/control-plane": ""})),
            label_rule,
        ),
        attack(
            "becomes a subnet manager",
            "PATCH",
            &own,
            labels(json!({"node-restriction.kubernetes.io/ferroband-subnet-manager": "true"})),
            label_rule,
        ),
        attack("attracts pods of a tenant", "PATCH", &own, labels(json!({"tenant": "red"})), label_rule),
        attack("loses a label", "PATCH", &own, labels(json!({"kubernetes.io/os": null})), label_rule),
        attack(
            "a label through the status",
            "PATCH",
            status(&own),
            labels(json!({"tenant": "red"})),
            label_rule,
        ),
        attack("fences itself, so that its addresses are freed", "PATCH", &own, taint.clone(), spec_rule),
        attack("cordons itself", "PATCH", &own, json!({"spec": {"unschedulable": true}}), spec_rule),
        attack(
            "is uncordoned by the leader",
            "PATCH",
            &own,
            json!({"metadata": {"annotations": {"ferroband.io/cordoned": "true"}}}),
            "may change no annotation but",
        ),
        attack(
            "cannot be deleted",
            "PATCH",
            &own,
            json!({"metadata": {"finalizers": ["evil.example/stay"]}}),
            "may not change finalizers",
        ),
        attack(
            "has more devices than it has",
            "PATCH",
            status(&own),
            json!({"status": {"capacity": {"spidernet.io/forged": "100"}, "allocatable": {"spidernet.io/forged": "100"}}}),
            "of its node only a condition",
        ),
        attack(
            "has the address of another node",
            "PATCH",
            status(&own),
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.77.0.1"}]}}),
            "of its node only a condition",
        ),
        attack("is always ready", "PATCH", status(&own), ready.clone(), "no condition but FerrobandDevices"),
        attack("taints another node", "PATCH", &other, taint, "does not belong to node"),
        attack(
            "labels another node",
            "PATCH",
            &other,
            labels(json!({"ferroband.io/simulated": "false"})),
            "does not belong to node",
        ),
        attack("makes another node not ready", "PATCH", status(&other), ready, "does not belong to node"),
        attack("deletes another node", "DELETE", &other, json!({}), "cannot delete resource"),
    ];
    assert_all_refused(&account, &attacks, || json!([node_facts(&nodes[0]), node_facts(&nodes[1])]));

    // The daemon can still do its work.
    let label = account.request("PATCH", &own, &labels(json!({"ferroband.io/simulated": "true"})));
    assert!(label.is_accepted(), "{label:?}");
    let condition = json!({"status": {"conditions": [{"type": "FerrobandDevices", "status": "True",
        "reason": "AsConfigured", "message": "", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
    let written = account.request_as("PATCH", &status(&own), "strategic-merge-patch+json", &condition);
    assert!(written.is_accepted(), "{written:?}");
}

#[test]
fn hostile_node_account_changes_only_the_network_status_of_its_pods() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply_pod("hostile-here", &nodes[0]).apply_pod("hostile-there", &nodes[1]);
    for pod in ["hostile-here", "hostile-there"] {
        wait_pod_ready(pod, 60);
    }
    let account = NodeAccount::of_node(&nodes[0]);
    let pods = "/api/v1/namespaces/default/pods";
    let (here, there) = (format!("{pods}/hostile-here/status"), format!("{pods}/hostile-there/status"));
    let label = json!({"metadata": {"labels": {"app": "database"}}});
    let address = json!({"status": {"podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}});
    let default_network =
        json!({"metadata": {"annotations": {"v1.multus-cni.io/default-network": "kube-system/admin"}}});
    let empty = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": "[]"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hostile-new"},
        "spec": {"nodeName": nodes[1], "containers": [{"name": "c", "image": "busybox:1"}]}});
    let attacks = [
        attack("joins a Service", "PATCH", &here, label.clone(), "may change no label but"),
        attack(
            "takes the address of another pod",
            "PATCH",
            &here,
            address,
            "may not change the status of pods",
        ),
        attack(
            "changes the default network",
            "PATCH",
            &here,
            default_network,
            "may change no annotation but",
        ),
        attack(
            "cannot be deleted",
            "PATCH",
            &here,
            json!({"metadata": {"finalizers": ["evil.example/stay"]}}),
            "may not change finalizers",
        ),
        attack("labels a pod of another node", "PATCH", &there, label.clone(), "is not on node"),
        attack("hides the networks of another node's pod", "PATCH", &there, empty.clone(), "is not on node"),
        attack(
            "labels without the status",
            "PATCH",
            format!("{pods}/hostile-here"),
            label,
            "cannot patch resource",
        ),
        attack("creates a pod", "POST", pods, pod, "cannot create resource"),
        attack(
            "deletes a pod",
            "DELETE",
            format!("{pods}/hostile-there"),
            json!({}),
            "cannot delete resource",
        ),
        attack(
            "evicts a pod",
            "POST",
            format!("{pods}/hostile-there/eviction"),
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "hostile-there"}}),
            "cannot create resource",
        ),
    ];
    let state = || json!([pod_facts("hostile-here"), pod_facts("hostile-there")]);
    assert_all_refused(&account, &attacks, state);

    let unbound = NodeAccount::unbound().request("PATCH", &here, &empty);
    assert!(unbound.is_refused_because("not bound to a node"), "{unbound:?}");
    let own = account.request("PATCH", &here, &empty);
    assert!(own.is_accepted(), "the daemon can still write network-status: {own:?}");
}

#[test]
fn hostile_node_account_changes_no_object_of_other_nodes() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let account = NodeAccount::of_node(&nodes[0]);
    let own = "/apis/ferroband.io/v1alpha1";
    let entry =
        json!({"pod": "default/x", "uid": "u", "interface": "net1", "container": "c", "node": nodes[1]});
    let block =
        |entries: Value| json!({"space": "network/hostile", "first": "10.251.0.0", "entries": entries});
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "ferroband.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let claims = json!({"claims": {"1": {"node": nodes[1], "device": "0000:86:00.2"}}});
    objects.apply(&object("AddressBlock", "hostile-10.251.0.0", block(json!({"1": entry}))).to_string());
    objects.apply(&object("GuidBlock", "0200000000000c00", claims).to_string());
    objects
        .apply(&network_definition("hostile-net", &json!({"type": "ipoib", "master": "ibs5f0"})).to_string());
    let version = |kind: &str, name: &str| kubectl_get(&[kind, name])["metadata"]["resourceVersion"].clone();
    let replaced = |kind: &str, resource: &str, name: &str, spec: Value| {
        let mut changed = object(kind, name, spec);
        changed["metadata"]["resourceVersion"] = version(resource, name);
        changed
    };
    let mut stolen = entry.clone();
    stolen["node"] = json!(nodes[0]);
    let block_path = format!("{own}/addressblocks/hostile-10.251.0.0");
    let guid_path = format!("{own}/guidblocks/0200000000000c00");
    let replaced_block =
        |entries: Value| replaced("AddressBlock", "addressblocks", "hostile-10.251.0.0", block(entries));
    let replaced_guids =
        |claims: Value| replaced("GuidBlock", "guidblocks", "0200000000000c00", json!({"claims": claims}));
    let states = "/apis/sriovnetwork.openshift.io/v1/namespaces/ferroband-system/sriovnetworknodestates";
    let state = format!("{states}/{}", nodes[1]);
    let functions = json!({"functions": {"0000:86:00.2": "02:00:00:00:00:00:00:99"}});
    let partition = object("Partition", "hostile", json!({"pkey": "0x3e8", "namespaces": ["evil"]}));
    let nads = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
    let elsewhere = "does not belong to node";
    let attacks = [
        attack(
            "frees an address of another node",
            "PUT",
            &block_path,
            replaced_block(json!({})),
            "do not belong to node",
        ),
        attack(
            "takes an address of another node",
            "PUT",
            &block_path,
            replaced_block(json!({"1": stolen})),
            "do not belong to node",
        ),
        attack(
            "blocks addresses in the name of another node",
            "PUT",
            &block_path,
            replaced_block(json!({"1": entry, "2": entry})),
            "do not belong to node",
        ),
        attack("deletes a block", "DELETE", &block_path, json!({}), "cannot delete resource"),
        attack(
            "frees a GUID of another node",
            "PUT",
            &guid_path,
            replaced_guids(json!({})),
            "do not belong to node",
        ),
        attack(
            "takes a GUID of another node",
            "PUT",
            &guid_path,
            replaced_guids(json!({"1": {"node": nodes[0], "device": "0000:86:00.2"}})),
            "do not belong to node",
        ),
        // A request to create the object is refused before the API server looks whether it exists.
        attack(
            "changes members of another node",
            "POST",
            format!("{own}/nodepartitions"),
            object("NodePartitions", &nodes[1], functions.clone()),
            elsewhere,
        ),
        attack(
            "creates members of a node that does not exist",
            "POST",
            format!("{own}/nodepartitions"),
            object("NodePartitions", "no-such-node", functions),
            elsewhere,
        ),
        attack(
            "configures adapters of another node",
            "PATCH",
            &state,
            json!({"spec": {"interfaces": []}}),
            elsewhere,
        ),
        attack(
            "drains another node",
            "PATCH",
            &state,
            json!({"metadata": {"annotations": {"sriovnetwork.openshift.io/desired-state": "Drain_Required"}}}),
            elsewhere,
        ),
        attack(
            "forges the hardware of another node",
            "PATCH",
            format!("{state}/status"),
            json!({"status": {"interfaces": []}}),
            elsewhere,
        ),
        attack("opens a partition", "POST", format!("{own}/partitions"), partition, "cannot create resource"),
        attack(
            "changes a network",
            "PATCH",
            format!("{nads}/hostile-net"),
            json!({"spec": {"config": "{}"}}),
            "cannot patch resource",
        ),
        attack(
            "disables its own policy",
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/ferroband-node",
            json!({}),
            "cannot delete resource",
        ),
    ];
    let snapshot = || {
        json!([
            kubectl_get(&["addressblocks", "hostile-10.251.0.0"])["spec"],
            kubectl_get(&["guidblocks", "0200000000000c00"])["spec"],
            kubectl_get(&[
                "-n",
                "ferroband-system",
                "sriovnetworknodestates.sriovnetwork.openshift.io",
                &nodes[1]
            ])["spec"],
            kubectl_get(&["net-attach-def", "hostile-net"])["spec"],
        ])
    };
    assert_all_refused(&account, &attacks, snapshot);
}

#[test]
fn hostile_node_account_reads_no_secret_and_forges_no_event() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let account = NodeAccount::of_node(&nodes[0]);
    let event = |name: &str, host: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": kind, "name": "x", "namespace": "default"}, "reason": "Test", "type": "Warning",
            "message": "m", "source": {"component": "ferroband-node", "host": host}})
    };
    objects.apply(&event("hostile-of-other", &nodes[1], "Pod").to_string());
    objects.track(&event("hostile-own", &nodes[0], "Pod").to_string());
    let events = "/api/v1/namespaces/default/events";
    let no_secret = "cannot get resource \\\"secrets\\\"";
    let token = "/api/v1/namespaces/ferroband-system/serviceaccounts/ferroband-cluster/token";
    let attacks = [
        attack(
            "reads the Secret of UFM",
            "GET",
            "/api/v1/namespaces/kube-system/secrets/ib-kubernetes-ufm-secret",
            json!({}),
            no_secret,
        ),
        attack(
            "reads the webhook's key",
            "GET",
            "/api/v1/namespaces/ferroband-system/secrets/ferroband-webhook",
            json!({}),
            no_secret,
        ),
        attack(
            "becomes the cluster daemon",
            "POST",
            token,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
            "cannot create resource",
        ),
        attack(
            "reports in the name of another node",
            "POST",
            events,
            event("hostile-forged", &nodes[1], "Pod"),
            "not of node",
        ),
        attack(
            "reports about a node",
            "POST",
            events,
            event("hostile-node", &nodes[0], "Node"),
            "not about a pod",
        ),
        attack(
            "hides a report of another node",
            "PATCH",
            format!("{events}/hostile-of-other"),
            json!({"message": "all is well"}),
            "not of node",
        ),
    ];
    let state = || kubectl_get(&["events", "hostile-of-other"])["message"].clone();
    assert_all_refused(&account, &attacks, state);
    let own = account.request("POST", events, &event("hostile-own", &nodes[0], "Pod"));
    assert!(own.is_accepted(), "the daemon can still report: {own:?}");
}

#[test]
fn hostile_kubelet_account_does_not_become_a_subnet_manager() {
    let node = &node_names()[0];
    let before = node_facts(node);
    let kubelet = [&format!("--as=system:node:{node}"), "--as-group=system:nodes"];
    let label = ["label", "node", node, "node-restriction.kubernetes.io/ferroband-subnet-manager=true"];
    let answer = kubectl(&[&label[..], &kubelet[..]].concat());
    assert!(!answer.ok && answer.err.contains("is not allowed to"), "{answer:?}");
    assert_eq!(node_facts(node), before);
}
