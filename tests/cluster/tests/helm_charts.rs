//! The Helm charts: validated, upgraded under running pods, and uninstalled, in a separate lab.
//!
//! The tests run in alphabetical order; the last one uninstalls Ferroband.

use ferroband_cluster_tests::{
    TestObjects, chart_path, eventually, exec_on, helm, kubectl, kubectl_get, kubectl_with,
    network_definition, node_names, pod_with_networks, start_own_lab,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "ferroband-system";

fn lab() {
    start_own_lab(&["--nodes", "1"]);
}

#[test]
fn charts_pass_lint_and_server_side_validation() {
    lab();
    for name in ["ferroband", "rdma-tools"] {
        helm(&["lint", "--strict", &chart_path(name)]).stdout_or_panic();
        let objects = helm(&["template", "tried", &chart_path(name), "-n", NAMESPACE]).stdout_or_panic();
        kubectl_with(&["apply", "--dry-run=server", "-f", "-"], &objects).stdout_or_panic();
    }
    for value in ["node.firmware=true", "node.subnetManager=true", "verify=true"] {
        let objects = helm(&["template", "x", &chart_path("ferroband"), "--set", value]).stdout_or_panic();
        assert_eq!(
            objects.matches("ghcr.io/ferroband/ferroband-tools:").count(),
            1,
            "{value}: only the node daemon"
        );
    }
    let wrong = helm(&["template", "x", &chart_path("ferroband"), "--set", "cluster.replicas=none"]);
    assert!(!wrong.ok && wrong.err.contains("/cluster/replicas"), "{wrong:?}");
    let unknown = helm(&["template", "x", &chart_path("ferroband"), "--set", "nodes.simulate=default"]);
    assert!(!unknown.ok && unknown.err.contains("nodes"), "{unknown:?}");
    let mirrored = helm(&[
        "template",
        "x",
        &chart_path("ferroband"),
        "--set",
        "global.imageRegistryOverride=ghcr.m.daocloud.io",
    ])
    .stdout_or_panic();
    let images: Vec<_> = mirrored.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
    assert!(
        images.len() == 4 && images.iter().all(|image| image.starts_with("\"ghcr.m.daocloud.io/")),
        "{images:?}"
    );
}

#[test]
fn rdma_tools_follow_their_values() {
    lab();
    let values = json!({
        "image": {"registry": "ferroband.lab", "repository": "tools", "tag": "1"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node_names()[0]]}]},
        ]}}},
        "extraAnnotations": {"example.com/note": "said"},
        "resources": {"limits": {"jarvice.com/rdma": 1}},
    });
    let file = std::env::temp_dir().join(format!("ferroband-values-{}.json", std::process::id()));
    std::fs::write(&file, values.to_string()).expect("a scratch file");
    let installed = helm(&[
        "install",
        "rdma-tools",
        &chart_path("rdma-tools"),
        "-f",
        &file.to_string_lossy(),
        "--wait",
        "--timeout=120s",
    ]);
    let _ = std::fs::remove_file(&file);
    let pods = kubectl_get(&["pods", "-l", "app.kubernetes.io/name=rdma-tools"]);
    helm(&["uninstall", "rdma-tools", "--wait", "--timeout=60s"]).stdout_or_panic();
    installed.stdout_or_panic();
    let pod = &pods["items"][0];
    assert_eq!(pod["metadata"]["annotations"]["example.com/note"], "said");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["jarvice.com/rdma"], "1");
    assert_eq!(pod["spec"]["nodeName"], json!(node_names()[0]));
}

/// Ferroband's files in the node's CNI folders.
fn cni_files(node: &str) -> String {
    exec_on(node, "ls /etc/cni/net.d /opt/cni/bin | grep -i ferroband; true").stdout_or_panic()
}

#[test]
fn upgrade_keeps_pods_running_and_uninstall_removes_everything() {
    lab();
    let node = node_names()[0].clone();
    let mut objects = TestObjects::default();
    let config = json!({"cniVersion": "0.3.1", "name": "up", "type": "ipoib", "master": "ibs5f0", "ipam": {"type": "whereabouts", "range": "192.168.90.0/24"}});
    objects.apply(&network_definition("up", &config).to_string());
    let pod = |name: &str| pod_with_networks(name, &node, "up");
    objects.apply(&pod("before"));
    let before = objects.wait_ready("before", 120);

    helm(&[
        "upgrade",
        "ferroband",
        &chart_path("ferroband"),
        "-n",
        NAMESPACE,
        "--reuse-values",
        "--set",
        "log=debug",
        "--timeout=300s",
    ])
    .stdout_or_panic();
    kubectl(&["-n", NAMESPACE, "rollout", "status", "ds/ferroband-node", "--timeout=180s"]).stdout_or_panic();
    kubectl(&["-n", NAMESPACE, "rollout", "status", "deploy/ferroband-cluster", "--timeout=180s"])
        .stdout_or_panic();
    let webhooks = || {
        kubectl_get(&["mutatingwebhookconfigurations", "ferroband-webhook"])["webhooks"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert!(webhooks() >= 2, "the upgrade removed the webhooks");
    let after = objects.wait_ready("before", 10);
    assert_eq!(restarts(&before), restarts(&after));
    objects.apply(&pod("between"));
    objects.wait_ready("between", 120);

    helm(&["uninstall", "ferroband", "-n", NAMESPACE, "--timeout=400s", "--wait"]).stdout_or_panic();
    for kind in [
        "clusterroles",
        "clusterrolebindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
    ] {
        let found =
            kubectl(&["get", kind, "-l", "app.kubernetes.io/name=ferroband", "-o", "name"]).stdout_or_panic();
        assert_eq!(found.trim(), "", "{kind}");
    }
    let kinds = "all,secrets,leases,roles,rolebindings,serviceaccounts";
    let selector = ["-l", "app.kubernetes.io/name=ferroband", "-o", "name"];
    // Helm waits for the workloads it deletes, not for their pods.
    eventually("no objects left in the namespace", 90, || {
        let found = kubectl(&[&["-n", NAMESPACE, "get", kinds], &selector[..]].concat()).stdout_or_panic();
        if found.trim().is_empty() { Ok(()) } else { Err(found) }
    });
    kubectl(&["get", "crd", "addressblocks.ferroband.io", "network-attachment-definitions.k8s.cni.cncf.io"])
        .stdout_or_panic();
    // Pods keep running; deleting the last one removes the CNI files.
    objects.wait_ready("before", 10);
    assert_ne!(cni_files(&node), "");
    kubectl(&["delete", "pod", "before", "between", "--wait", "--timeout=60s"]).stdout_or_panic();
    eventually("the CNI files are removed", 60, || match cni_files(&node) {
        rest if rest.is_empty() => Ok(()),
        rest => Err(rest),
    });
    objects.apply_pod("alone", &node);
    objects.wait_ready("alone", 60);
}

fn restarts(pod: &Value) -> Vec<Value> {
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    statuses.iter().map(|status| status["restartCount"].clone()).collect()
}
