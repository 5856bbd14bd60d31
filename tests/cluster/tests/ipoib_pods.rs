//! The first pod: an IPoIB network with Whereabouts addresses and the JARVICE resource, as the document has it.

use ferroband_cluster_tests::inspect::{
    audit_events, audit_log_length, block_entries, first_ipv4, leftover_state, network_status, pod_interface,
};
use ferroband_cluster_tests::{
    TestObjects, document_yaml, eventually, exec_in_pod, exec_on, kill_node_daemon, kubectl, kubectl_get,
    network_definition, node_names, pod_with_networks as pod, run_lab,
};
use serde_json::{Value, json};

/// The document's network and pod.
fn document() -> (String, String) {
    let found = document_yaml("000", "jarvice-ipoib", &["network.yaml", "pod.yaml"]);
    assert_eq!(found.len(), 2, "the document has a network and a pod");
    (found[0].clone(), found[1].clone())
}

/// The document's pod under another name: the resource is one per node, so it lands elsewhere.
fn twin(pod: &str, name: &str) -> String {
    pod.replace("name: ipoib-test", &format!("name: {name}"))
}

fn network(name: &str, master: &str, range: &str) -> String {
    let config = json!({
        "cniVersion": "0.3.1", "type": "ipoib", "name": name, "master": master,
        "ipam": {"type": "whereabouts", "range": range},
    });
    network_definition(name, &config).to_string()
}

/// Wait until the nodes and the granules hold nothing of this range.
#[track_caller]
fn nothing_is_left(range: &str) {
    eventually("nothing is left of the pods", 30, || {
        let entries: Vec<_> = block_entries().into_iter().filter(|(g, _)| g.starts_with(range)).collect();
        if !entries.is_empty() {
            return Err(format!("{entries:?}"));
        }
        for node in node_names() {
            let pods = kubectl_get(&["pods", "-A", "--field-selector", &format!("spec.nodeName={node}")]);
            let names: Vec<&Value> =
                pods["items"].as_array().into_iter().flatten().map(|p| &p["metadata"]["name"]).collect();
            let kept = leftover_state(&node);
            if !kept.is_empty() {
                return Err(format!("{node} keeps {kept} with pods {names:?}"));
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
fn seed_000_network_and_pod_as_printed_and_a_second_pod_reach_each_other() {
    let (network, pod) = document();
    let mut objects = TestObjects::default();
    objects.apply(&network).apply(&pod).apply(&twin(&pod, "ipoib-test-2"));
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
    nothing_is_left("192.168.0.");
}

#[test]
fn a_missing_network_is_named_and_the_pod_starts_when_it_comes() {
    let mut objects = TestObjects::default();
    objects.apply(&pod("waits", &node_names()[0], "comes-later"));
    let said = eventually("an event", 30, || {
        let events = events_of("waits");
        if events.contains("NoNetworkFound") { Ok(events) } else { Err(events) }
    });
    assert!(said.contains("default/comes-later"), "which network: {said}");
    objects.apply(&network("comes-later", "ib0", "192.168.41.0/24"));
    objects.wait_ready("waits", 60);
    assert!(first_ipv4(&pod_interface("waits", "net1")).0.starts_with("192.168.41."));
    drop(objects);
    nothing_is_left("192.168.41.");
}

#[test]
fn a_missing_master_is_named_and_leaves_nothing_behind() {
    let mut objects = TestObjects::default();
    objects.apply(&network("no-master", "ib7", "192.168.42.0/24"));
    objects.apply(&pod("masterless", &node_names()[0], "no-master"));
    let said = eventually("an event", 30, || {
        let events = events_of("masterless");
        if events.contains("NoParent") && events.contains("ib7") { Ok(events) } else { Err(events) }
    });
    assert!(said.contains("ibs5f0") || said.contains("ib0"), "the remedy names what is there: {said}");
    // Mended by the user, the pod starts by itself.
    objects.apply(&network("no-master", "ib0", "192.168.42.0/24"));
    objects.wait_ready("masterless", 90);
    drop(objects);
    nothing_is_left("192.168.42.");
}

#[test]
fn one_add_costs_one_patch_of_the_pod_and_one_write_of_a_granule() {
    let mut objects = TestObjects::default();
    objects.apply(&network("counted", "ib0", "192.168.43.0/24"));
    // The first pod makes the granule known to the node; the second is what a busy node sees.
    for name in ["count-1", "count-2"] {
        let mark = audit_log_length();
        objects.apply(&pod(name, &node_names()[0], "counted"));
        objects.wait_ready(name, 60);
        let ours: Vec<String> = eventually("the audit log", 10, || {
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
        let writes = |what: &str| ours.iter().filter(|l| l.contains(what)).count();
        assert_eq!(writes("pods"), 1, "{ours:?}");
        assert_eq!(writes("addressblocks"), 1, "{ours:?}");
        assert!(!ours.iter().any(|l| l.starts_with("get") || l.starts_with("list")), "no reads: {ours:?}");
        assert!(ours.len() <= 3, "at most one event besides: {ours:?}");
    }
    drop(objects);
    nothing_is_left("192.168.43.");
}

#[test]
fn a_pod_without_networks_has_only_the_default_one() {
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
fn a_pod_is_deleted_while_the_daemon_is_away_and_its_address_is_freed_when_it_is_back() {
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    objects.apply(&network("away", "ib0", "192.168.44.0/24"));
    objects.apply(&pod("orphaned", &node, "away"));
    objects.wait_ready("orphaned", 60);
    // Off this node only: the daemon set must not find it again until we say so.
    kubectl(&["label", "node", &node, "ferroband.io/keep-away=yes", "--overwrite"]).stdout_or_panic();
    let keep_away = r#"{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms":[{"matchExpressions":[{"key":"ferroband.io/keep-away","operator":"DoesNotExist"}]}]}}}}}}}"#;
    let daemon = ["-n", "ferroband-system"];
    kubectl(
        &[&daemon[..], &["patch", "daemonset", "ferroband-node", "--type=merge", "-p", keep_away]].concat(),
    )
    .stdout_or_panic();
    let outcome = std::panic::catch_unwind(|| {
        eventually("the daemon is away", 60, || {
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
            let kept = exec_on(&node, "ip -o link | grep -c fbv || true").stdout_or_panic();
            if kept.trim() == "0" { Ok(()) } else { Err(kept) }
        });
        eventually("the release is owed", 10, || {
            let owed = exec_on(&node, "ls /var/lib/ferroband/owed | wc -l").stdout_or_panic();
            if owed.trim() == "1" { Ok(()) } else { Err(owed) }
        });
        let held = block_entries().iter().filter(|(g, _)| g.starts_with("192.168.44.")).count();
        assert_eq!(held, 1, "an address nobody confirmed free stays assigned");
    });
    kubectl(&["label", "node", &node, "ferroband.io/keep-away-"]).stdout_or_panic();
    let back = r#"{"spec":{"template":{"spec":{"affinity":null}}}}"#;
    kubectl(&[&daemon[..], &["patch", "daemonset", "ferroband-node", "--type=merge", "-p", back]].concat())
        .stdout_or_panic();
    kubectl(&[&daemon[..], &["rollout", "status", "daemonset/ferroband-node", "--timeout=120s"]].concat())
        .stdout_or_panic();
    outcome.unwrap();
    nothing_is_left("192.168.44.");
    assert_eq!(exec_on(&node, "ls /var/lib/ferroband/owed | wc -l").stdout_or_panic().trim(), "0");
}

#[test]
fn a_killed_daemon_comes_back_and_pods_start_meanwhile_or_soon_after() {
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
    nothing_is_left("192.168.45.");
}

#[test]
fn a_rebooted_node_gives_the_pod_its_address_again() {
    let (mut objects, node) = (TestObjects::default(), node_names()[1].clone());
    objects.apply(&network("rebooted", "ib0", "192.168.46.0/24"));
    objects.apply(&pod("phoenix", &node, "rebooted"));
    objects.wait_ready("phoenix", 60);
    let (before, _) = first_ipv4(&pod_interface("phoenix", "net1"));
    run_lab(&["reboot", &node]).stdout_or_panic();
    let after = eventually("the pod runs again with its network", 120, || {
        let pod = kubectl_get(&["pod", "phoenix"]);
        let state = &pod["status"]["containerStatuses"][0];
        if state["restartCount"].as_i64().unwrap_or(0) == 0 || state["ready"] != true {
            return Err(pod["status"].to_string());
        }
        let seen = kubectl(&["exec", "phoenix", "--", "ip", "-j", "address", "show", "dev", "net1"]);
        serde_json::from_str::<Value>(&seen.out).map(|l| l[0].clone()).map_err(|_| seen.err)
    });
    assert_eq!(first_ipv4(&after).0, before, "the same pod keeps its address");
    let held = block_entries().iter().filter(|(g, _)| g.starts_with("192.168.46.")).count();
    assert_eq!(held, 1);
    drop(objects);
    nothing_is_left("192.168.46.");
}
