//! IPoIB pods with Whereabouts addresses: document 000 with the JARVICE resource, errors, API writes, restarts.

use ferroband_cluster_tests::inspect::{
    audit_events, audit_log_length, block_entries, first_ipv4, leftover_state, network_status, pod_interface,
};
use ferroband_cluster_tests::{
    TestObjects, document_yaml, eventually, exec_in_pod, exec_on, kill_node_daemon, kubectl, kubectl_get,
    network_definition, node_names, pod_with_networks as pod, reboot_node,
};
use serde_json::{Value, json};

/// Network and pod of document 000.
fn document() -> (String, String) {
    let found = document_yaml("000", "jarvice-ipoib", &["network.yaml", "pod.yaml"]);
    assert_eq!(found.len(), 2, "the document has a network and a pod");
    (found[0].clone(), found[1].clone())
}

/// The document's pod under another name. It lands on another node, since each node has one unit of the resource.
fn renamed_pod(pod: &str, name: &str) -> String {
    pod.replace("name: ipoib-test", &format!("name: {name}"))
}

fn network(name: &str, master: &str, range: &str) -> String {
    let config = json!({
        "cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": master,
        "ipam": {"type": "whereabouts", "range": range},
    });
    network_definition(name, &config).to_string()
}

/// Waits until neither nodes nor address blocks have state of this range.
#[track_caller]
fn wait_nothing_left(range: &str) {
    eventually("no state of the pods left", 30, || {
        let entries: Vec<_> = block_entries().into_iter().filter(|(g, _)| g.starts_with(range)).collect();
        if !entries.is_empty() {
            return Err(format!("{entries:?}"));
        }
        for node in node_names() {
            let pods = kubectl_get(&["pods", "-A", "--field-selector", &format!("spec.nodeName={node}")]);
            let names: Vec<&Value> =
                pods["items"].as_array().into_iter().flatten().map(|p| &p["metadata"]["name"]).collect();
            let state = leftover_state(&node);
            if !state.is_empty() {
                return Err(format!("{node} has {state} with pods {names:?}"));
            }
        }
        Ok(())
    });
}

fn events_of(pod: &str) -> String {
    kubectl(&["get", "events", "--field-selector", &format!("involvedObject.name={pod}"), "-o", "json"])
        .stdout_or_panic()
}

#[test]
fn pod_of_document_000_and_a_second_pod_reach_each_other() {
    let (network, pod) = document();
    let mut objects = TestObjects::default();
    objects.apply(&network).apply(&pod).apply(&renamed_pod(&pod, "ipoib-test-2"));
    let first = objects.wait_ready("ipoib-test", 60);
    let second = objects.wait_ready("ipoib-test-2", 60);
    assert_ne!(
        first["spec"]["nodeName"], second["spec"]["nodeName"],
        "one unit of jarvice.com/rdma per node"
    );

    let (here, prefix) = first_ipv4(&pod_interface("ipoib-test", "net1"));
    let (there, _) = first_ipv4(&pod_interface("ipoib-test-2", "net1"));
    assert!(here.starts_with("192.168.0.") && prefix == 24, "{here}/{prefix}");
    assert_ne!(here, there);
    exec_in_pod("ipoib-test", &format!("ping -c 3 -w 15 -I net1 {there}")).stdout_or_panic();

    let devices = exec_in_pod("ipoib-test", "ls -l /dev/infiniband").stdout_or_panic();
    assert!(devices.contains("uverbs0") && devices.contains("rdma_cm"), "{devices}");
    assert!(devices.lines().filter(|l| l.starts_with('c')).count() >= 2, "character devices: {devices}");
    exec_in_pod("ipoib-test", "exec 3<>/dev/infiniband/uverbs0").stdout_or_panic();

    let status = network_status(&first);
    assert_eq!(status.len(), 2, "{status:?}");
    assert_eq!(status[0]["interface"], "eth0");
    assert_eq!(status[0]["default"], true);
    assert_eq!(status[0]["ips"][0], first["status"]["podIP"]);
    assert_eq!(status[1]["name"], "default/jarvice-ipoib");
    assert_eq!(status[1]["interface"], "net1");
    assert_eq!(status[1]["ips"], serde_json::json!([here]));
    assert_eq!(status[1]["mac"], pod_interface("ipoib-test", "net1")["address"]);
    assert!(status[1].get("default").is_none());

    drop(objects);
    wait_nothing_left("192.168.0.");
}

#[test]
fn event_names_a_missing_network_and_the_pod_starts_once_it_exists() {
    let mut objects = TestObjects::default();
    objects.apply(&pod("waits", &node_names()[0], "comes-later"));
    let event = eventually("an event", 30, || {
        let events = events_of("waits");
        if events.contains("NoNetworkFound") { Ok(events) } else { Err(events) }
    });
    assert!(event.contains("default/comes-later"), "the event names the network: {event}");
    objects.apply(&network("comes-later", "ib0", "192.168.41.0/24"));
    objects.wait_ready("waits", 60);
    assert!(first_ipv4(&pod_interface("waits", "net1")).0.starts_with("192.168.41."));
    drop(objects);
    wait_nothing_left("192.168.41.");
}

#[test]
fn event_names_a_missing_master_and_nothing_is_left_behind() {
    let mut objects = TestObjects::default();
    objects.apply(&network("no-master", "ib7", "192.168.42.0/24"));
    objects.apply(&pod("masterless", &node_names()[0], "no-master"));
    let event = eventually("an event", 30, || {
        let events = events_of("masterless");
        if events.contains("NoParent") && events.contains("ib7") { Ok(events) } else { Err(events) }
    });
    assert!(
        event.contains("ibs5f0") || event.contains("ib0"),
        "the remedy names existing interfaces: {event}"
    );
    // Once the user corrects the network, the pod starts.
    objects.apply(&network("no-master", "ib0", "192.168.42.0/24"));
    objects.wait_ready("masterless", 90);
    drop(objects);
    wait_nothing_left("192.168.42.");
}

#[test]
fn one_add_patches_the_pod_once_and_writes_one_address_block() {
    let mut objects = TestObjects::default();
    objects.apply(&network("counted", "ib0", "192.168.43.0/24"));
    // The first pod caches the address block on the node; the second is the usual case on a busy node.
    for name in ["count-1", "count-2"] {
        let mark = audit_log_length();
        objects.apply(&pod(name, &node_names()[0], "counted"));
        objects.wait_ready(name, 60);
        let requests: Vec<String> = eventually("the audit log", 10, || {
            let lines: Vec<String> = audit_events(mark)
                .iter()
                .filter(|e| e["user"]["username"].as_str().is_some_and(|u| u.contains("ferroband-node")))
                .filter(|e| e["verb"] != "watch")
                .map(|e| {
                    let object = &e["objectRef"];
                    let word = |v: &Value| v.as_str().unwrap_or_default().to_string();
                    format!(
                        "{} {} {}",
                        word(&e["verb"]),
                        word(&object["resource"]),
                        word(&object["subresource"])
                    )
                })
                .collect();
            if lines.iter().any(|l| l.starts_with("patch pods")) {
                Ok(lines)
            } else {
                Err(format!("{lines:?}"))
            }
        });
        let writes = |what: &str| requests.iter().filter(|l| l.contains(what)).count();
        assert_eq!(writes("pods"), 1, "{requests:?}");
        assert_eq!(writes("addressblocks"), 1, "{requests:?}");
        assert!(
            !requests.iter().any(|l| l.starts_with("get") || l.starts_with("list")),
            "no reads: {requests:?}"
        );
        assert!(requests.len() <= 3, "at most one event besides: {requests:?}");
    }
    drop(objects);
    wait_nothing_left("192.168.43.");
}

// Case: cni 79
#[test]
fn pod_without_networks_has_only_the_default_network() {
    let mut objects = TestObjects::default();
    objects.apply_pod("plain", &node_names()[0]);
    objects.wait_ready("plain", 60);
    let pod = eventually("network-status", 10, || {
        let pod = kubectl_get(&["pod", "plain"]);
        let has = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].is_string();
        if has { Ok(pod) } else { Err(pod["metadata"].to_string()) }
    });
    let status = network_status(&pod);
    assert_eq!(status.len(), 1);
    assert_eq!(status[0]["interface"], "eth0");
}

#[test]
fn address_of_a_pod_deleted_without_the_daemon_is_released_when_it_returns() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(&network("away", "ib0", "192.168.44.0/24"));
    objects.apply(&pod("orphaned", &node, "away"));
    objects.wait_ready("orphaned", 60);
    // Keep the DaemonSet off this node until the test removes the label.
    kubectl(&["label", "node", &node, "ferroband.io/keep-away=yes", "--overwrite"]).stdout_or_panic();
    let keep_away = r#"{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":[{"matchExpressions":[{"key":"ferroband.io/keep-away","operator":"DoesNotExist"}]}]}}}}}}}"#;
    let daemon = ["-n", "ferroband-system"];
    kubectl(
        &[&daemon[..], &["patch", "daemonset", "ferroband-node", "--type=merge", "-p", keep_away]].concat(),
    )
    .stdout_or_panic();
    let outcome = std::panic::catch_unwind(|| {
        eventually("the daemon is stopped", 60, || {
            let pods = kubectl_get(&[
                "pods",
                "-n",
                "ferroband-system",
                "-l",
                "app.kubernetes.io/component=node",
                "--field-selector",
                &format!("spec.nodeName={node}"),
            ]);
            let left = pods["items"].as_array().map_or(0, Vec::len);
            if left == 0 { Ok(()) } else { Err(format!("{left} daemons")) }
        });
        kubectl(&["delete", "pod", "orphaned", "--timeout=60s"]).stdout_or_panic();
        eventually("the interface is gone without the daemon", 20, || {
            let left = exec_on(&node, "ip -o link | grep -c fbv || true").stdout_or_panic();
            if left.trim() == "0" { Ok(()) } else { Err(left) }
        });
        eventually("the release is pending", 10, || {
            let pending = exec_on(&node, "ls /var/lib/ferroband/owed | wc -l").stdout_or_panic();
            if pending.trim() == "1" { Ok(()) } else { Err(pending) }
        });
        let assigned = block_entries().iter().filter(|(g, _)| g.starts_with("192.168.44.")).count();
        assert_eq!(assigned, 1, "the address stays assigned until the release is confirmed");
    });
    kubectl(&["label", "node", &node, "ferroband.io/keep-away-"]).stdout_or_panic();
    let back = r#"{"spec":{"template":{"spec":{"affinity":null}}}}"#;
    kubectl(&[&daemon[..], &["patch", "daemonset", "ferroband-node", "--type=merge", "-p", back]].concat())
        .stdout_or_panic();
    kubectl(&[&daemon[..], &["rollout", "status", "daemonset/ferroband-node", "--timeout=120s"]].concat())
        .stdout_or_panic();
    outcome.unwrap();
    wait_nothing_left("192.168.44.");
    assert_eq!(exec_on(&node, "ls /var/lib/ferroband/owed | wc -l").stdout_or_panic().trim(), "0");
}

#[test]
fn pods_start_after_the_node_daemon_is_killed() {
    let (mut objects, node) = (TestObjects::default(), node_names()[1].clone());
    objects.apply(&network("killed", "ib0", "192.168.45.0/24"));
    for round in 0..3 {
        let name = format!("killed-{round}");
        kill_node_daemon(&node);
        objects.apply(&pod(&name, &node, "killed"));
        objects.wait_ready(&name, 90);
        assert!(first_ipv4(&pod_interface(&name, "net1")).0.starts_with("192.168.45."));
        kubectl(&["delete", "pod", &name, "--timeout=60s"]).stdout_or_panic();
    }
    drop(objects);
    wait_nothing_left("192.168.45.");
}

#[test]
fn pod_keeps_its_address_after_a_node_reboot() {
    let (mut objects, node) = (TestObjects::default(), node_names()[1].clone());
    objects.apply(&network("rebooted", "ib0", "192.168.46.0/24"));
    objects.apply(&pod("phoenix", &node, "rebooted"));
    objects.wait_ready("phoenix", 60);
    let (before, _) = first_ipv4(&pod_interface("phoenix", "net1"));
    reboot_node(&node);
    let after = eventually("the pod runs again with its network", 120, || {
        let pod = kubectl_get(&["pod", "phoenix"]);
        let state = &pod["status"]["containerStatuses"][0];
        if state["restartCount"].as_i64().unwrap_or(0) == 0 || state["ready"] != true {
            return Err(pod["status"].to_string());
        }
        let output = kubectl(&["exec", "phoenix", "--", "ip", "-j", "address", "show", "dev", "net1"]);
        serde_json::from_str::<Value>(&output.out).map(|l| l[0].clone()).map_err(|_| output.err)
    });
    assert_eq!(first_ipv4(&after).0, before, "the pod keeps its address");
    let assigned = block_entries().iter().filter(|(g, _)| g.starts_with("192.168.46.")).count();
    assert_eq!(assigned, 1);
    drop(objects);
    wait_nothing_left("192.168.46.");
}
