//! InfiniBand as a pod's default network: probes, services and pods of the cluster network still reach it. Pods that
//! have only the cluster's default network need no daemon. Ferroband works next to daemons that own the default network.

use ferroband_cluster_tests::cni_folder::{CALICO, CILIUM, CniFolderDaemon, FLANNEL, MULTUS};
use ferroband_cluster_tests::inspect::network_status;
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, ferroband, holds_for, kubectl, kubectl_get,
    network_definition, node_names, pod_with_networks, soak_rounds, start_own_lab,
};
use serde_json::{Value, json};

const NETWORK: &str = "kube-system/ib-default";

fn network() -> Value {
    let config = json!({"cniVersion": "1.0.0", "name": "ib-default", "plugins": [
        {"type": "ipoib", "master": "ibs5f0", "ipam": {"type": "whereabouts", "range": "172.91.0.0/24"}},
        {"type": "coordinator"},
    ]});
    let mut network = network_definition("ib-default", &config);
    network["metadata"]["namespace"] = json!("kube-system");
    network
}

/// A pod that serves its own name over HTTP, with readiness and liveness probes.
fn server(name: &str, node: &str, annotations: &Value) -> Value {
    let probe = json!({"httpGet": {"path": "/name", "port": 8080}, "periodSeconds": 2, "failureThreshold": 2,
        "timeoutSeconds": 5});
    let script = format!("mkdir -p /tmp/w && echo {name} > /tmp/w/name && exec httpd -f -p 8080 -h /tmp/w");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"a": name}, "annotations": annotations},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "busybox:1", "command": ["sh", "-c", script],
                "readinessProbe": probe, "livenessProbe": probe,
            }],
        },
    })
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"a": name}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

#[test]
fn pod_with_infiniband_default_network_passes_probes_and_reaches_services() {
    start_own_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    let before = exec_on(&nodes[0], "ip rule; ip route show table 500 2>/dev/null; true").stdout_or_panic();
    objects.apply(&network().to_string());
    let on_infiniband = json!({"v1.multus-cni.io/default-network": NETWORK});
    objects.apply(&server("on-ib", &nodes[0], &on_infiniband).to_string());
    objects.apply(&server("beside", &nodes[0], &json!({})).to_string());
    objects.apply(&server("far", &nodes[1], &json!({})).to_string());
    for name in ["on-ib", "beside", "far"] {
        objects.apply(&service(name).to_string());
    }
    let pod = objects.wait_ready("on-ib", 120);
    let address = pod["status"]["podIP"].as_str().unwrap_or_default().to_string();
    assert!(address.starts_with("172.91.0."), "the pod IP is the InfiniBand address: {address}");
    for name in ["beside", "far"] {
        objects.wait_ready(name, 120);
    }
    let fetch = |from: &str, place: &str, expected: &str| {
        eventually(&format!("{from} fetches from {place}"), 60, || {
            let output = exec_in_pod(from, &format!("timeout 5 wget -q -O - http://{place}/name"));
            if output.out.trim() == expected { Ok(()) } else { Err(format!("{}{}", output.out, output.err)) }
        });
    };
    let cluster_ip = |name: &str| {
        kubectl_get(&["service", name])["spec"]["clusterIP"].as_str().unwrap_or_default().to_string()
    };
    fetch("beside", &format!("{address}:8080"), "on-ib");
    fetch("on-ib", &cluster_ip("beside"), "beside");
    fetch("on-ib", &cluster_ip("far"), "far");
    fetch("beside", &cluster_ip("on-ib"), "on-ib");

    let seconds = if soak_rounds() > 1 { 300 } else { 60 };
    holds_for("on-ib stays Ready", seconds, || {
        let pod = kubectl_get(&["pod", "on-ib"]);
        let status = &pod["status"]["containerStatuses"][0];
        match (&status["ready"], &status["restartCount"]) {
            (Value::Bool(true), restarts) if restarts == 0 => Ok(()),
            _ => Err(pod["status"].to_string()),
        }
    });

    kubectl(&["delete", "pod", "on-ib", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("rules and routes of the node are restored", 60, || {
        let now = exec_on(&nodes[0], "ip rule; ip route show table 500 2>/dev/null; true").stdout_or_panic();
        if now == before { Ok(()) } else { Err(now) }
    });
}

/// Patches the DaemonSet of the node daemons and waits until `count` of them run.
fn patch_node_daemons(patch: &str, count: usize) {
    let system = ["-n", "ferroband-system"];
    let patched =
        [&system[..], &["patch", "daemonset", "ferroband-node", "--type=merge", "-p", patch]].concat();
    kubectl(&patched).stdout_or_panic();
    eventually(&format!("{count} node daemons"), 120, || {
        let label = "app.kubernetes.io/component=node";
        let pods = kubectl_get(&[&system[..], &["pods", "-l", label]].concat());
        let ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == true;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let all_ready = pods.iter().filter(ready).count() == pods.len();
        if pods.len() == count && all_ready { Ok(()) } else { Err(format!("{} daemons", pods.len())) }
    });
}

// Case: cni 79, cni 108
#[test]
fn plain_pod_starts_without_the_daemon_and_gets_its_status_later() {
    start_own_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&network().to_string());
    let has_status =
        |pod: &Value| pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"].is_string();
    let nowhere = r#"{"spec":{"template":{"spec":{"nodeSelector":{"ferroband.io/nowhere":"yes"}}}}}"#;
    patch_node_daemons(nowhere, 0);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        objects.apply_pod("plain", &nodes[0]);
        objects.apply_pod("short-lived", &nodes[0]);
        objects.apply(&pod_with_networks("waiting", &nodes[0], NETWORK));
        let pod = objects.wait_ready("plain", 60);
        assert!(!has_status(&pod), "only the daemon writes it: {}", pod["metadata"]);
        assert!(!exec_in_pod("plain", "ls /sys/class/net").stdout_or_panic().contains("net1"));
        objects.wait_ready("short-lived", 60);
        kubectl(&["delete", "pod", "short-lived", "--wait", "--timeout=60s"]).stdout_or_panic();
        holds_for("a pod with a network waits", 15, || {
            let pod = kubectl_get(&["pod", "waiting"]);
            if pod["status"]["podIP"].is_null() { Ok(()) } else { Err(pod["status"].to_string()) }
        });
    }));
    let everywhere = r#"{"spec":{"template":{"spec":{"nodeSelector":{"ferroband.io/nowhere":null}}}}}"#;
    patch_node_daemons(everywhere, nodes.len());
    outcome.unwrap();
    let pod = eventually("network-status", 60, || {
        let pod = kubectl_get(&["pod", "plain"]);
        if has_status(&pod) { Ok(pod) } else { Err(pod["metadata"].to_string()) }
    });
    let status = network_status(&pod);
    assert_eq!((status.len(), &status[0]["interface"]), (1, &json!("eth0")));
    assert_eq!(status[0]["ips"][0], pod["status"]["podIP"]);
    objects.wait_ready("waiting", 120);
    eventually("no pending status left", 30, || {
        let left = exec_on(&nodes[0], "ls /run/ferroband/status").stdout_or_panic();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

const OWN_FILE: &str = "/etc/cni/net.d/00-ferroband.conflist";

/// Starts a pod with the default network and an InfiniBand network, and deletes it.
#[track_caller]
fn pod_gets_both_networks(objects: &mut TestObjects, name: &str, node: &str) {
    objects.apply(&pod_with_networks(name, node, NETWORK));
    objects.wait_ready(name, 120);
    let status = eventually("network-status", 60, || {
        let status = network_status(&kubectl_get(&["pod", name]));
        if status.len() == 2 { Ok(status) } else { Err(format!("{status:?}")) }
    });
    assert_eq!((&status[0]["interface"], &status[1]["interface"]), (&json!("eth0"), &json!("net1")));
    kubectl(&["delete", "pod", name, "--wait", "--timeout=60s"]).stdout_or_panic();
}

#[track_caller]
fn wrapped_network(node: &str) -> Value {
    let text = exec_on(node, &format!("cat {OWN_FILE}")).stdout_or_panic();
    let own: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    own["plugins"][0]["delegates"][0].clone()
}

// Case: cni 108
#[test]
fn pods_start_while_the_default_networks_daemon_rewrites_its_file() {
    start_own_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&network().to_string());
    let node = &nodes[1];
    for (name, step) in [("calico", CALICO), ("flannel", FLANNEL)] {
        let _daemon = CniFolderDaemon::start(node, step);
        if name == "calico" {
            eventually("the new token is wrapped", 60, || {
                let wrapped = wrapped_network(node);
                if wrapped["token"].is_string() { Ok(()) } else { Err(wrapped.to_string()) }
            });
        }
        for round in 0..3 {
            pod_gets_both_networks(&mut objects, &format!("{name}-{round}"), node);
        }
    }
}

#[test]
fn cilium_in_exclusive_mode_is_reported_and_not_fought() {
    start_own_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&network().to_string());
    let node = &nodes[1];
    let condition = || {
        let conditions =
            kubectl_get(&["node", node])["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == "FerrobandCniConfiguration").unwrap_or_default()
    };
    eventually("the condition is true", 60, || {
        let now = condition();
        if now["status"] == "True" { Ok(()) } else { Err(now.to_string()) }
    });
    exec_on(node, "cd /etc/cni/net.d && cp 10-lab.conflist 05-cilium.conflist").stdout_or_panic();
    let cilium = CniFolderDaemon::start(node, CILIUM);
    eventually("the condition names the Helm value", 60, || {
        let now = condition();
        let message = now["message"].as_str().unwrap_or_default();
        if now["status"] == "False" && message.contains("cni.exclusive=false") {
            Ok(())
        } else {
            Err(now.to_string())
        }
    });
    let report = ferroband(&["doctor"]);
    assert!(!report.ok && report.out.contains("cni.exclusive=false"), "{}{}", report.out, report.err);
    holds_for("the file is not written again at once", 10, || {
        let found = exec_on(node, &format!("test ! -e {OWN_FILE}"));
        if found.ok { Ok(()) } else { Err("it was written".to_owned()) }
    });
    // As if `cni.exclusive=false` was set: Cilium no longer renames files.
    drop(cilium);
    eventually("the file is back", 90, || {
        let found = exec_on(node, &format!("test -e {OWN_FILE}"));
        if found.ok { Ok(()) } else { Err("it is missing".to_owned()) }
    });
    pod_gets_both_networks(&mut objects, "beside-cilium", node);
}

#[test]
fn configurations_of_crio_and_multus_are_not_wrapped() {
    start_own_lab(&["--nodes", "2"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply(&network().to_string());
    let node = &nodes[1];
    let bridge =
        r#"{"cniVersion":"1.0.0","name":"crio","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}"#;
    let loopback = r#"{"cniVersion":"1.0.0","name":"loopback","plugins":[{"type":"loopback"}]}"#;
    let crio = format!(
        "cd /etc/cni/net.d && echo '{bridge}' > 100-crio-bridge.conflist && echo '{loopback}' > 200-loopback.conflist"
    );
    exec_on(node, &crio).stdout_or_panic();
    let multus = CniFolderDaemon::start(node, MULTUS);
    eventually("Multus wraps Ferroband", 30, || {
        let found = exec_on(node, "grep -q ferroband /etc/cni/net.d/00-multus.conf");
        if found.ok { Ok(()) } else { Err(found.err) }
    });
    for round in 0..3 {
        pod_gets_both_networks(&mut objects, &format!("beside-multus-{round}"), node);
        assert_eq!(wrapped_network(node)["name"], "lab");
    }
    drop(multus);
    exec_on(node, "cd /etc/cni/net.d && rm 100-crio-bridge.conflist 200-loopback.conflist").stdout_or_panic();
}
