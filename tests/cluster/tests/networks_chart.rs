//! The charts: checked, upgraded under running pods, and gone without a trace, in a lab of their own.

use ferroband_cluster_tests::{
    Objects, attached_pod, chart, definition, eventually, get, helm, kubectl, kubectl_with, nodes, on,
    own_lab,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "ferroband-system";

fn lab() {
    own_lab(&["--nodes", "1"]);
}

#[test]
fn a_charts_are_right_by_helm_and_by_the_api_server() {
    lab();
    for name in ["ferroband", "rdma-tools"] {
        helm(&["lint", "--strict", &chart(name)]).good();
        let objects = helm(&["template", "tried", &chart(name), "-n", NAMESPACE]).good();
        kubectl_with(&["apply", "--dry-run=server", "-f", "-"], &objects).good();
    }
    let wrong = helm(&["template", "x", &chart("ferroband"), "--set", "cluster.replicas=none"]);
    assert!(!wrong.ok && wrong.err.contains("/cluster/replicas"), "{wrong:?}");
    let unknown = helm(&["template", "x", &chart("ferroband"), "--set", "nodes.simulate=default"]);
    assert!(!unknown.ok && unknown.err.contains("nodes"), "{unknown:?}");
    let mirrored = helm(&[
        "template",
        "x",
        &chart("ferroband"),
        "--set",
        "global.imageRegistryOverride=ghcr.m.daocloud.io",
    ])
    .good();
    let images: Vec<_> = mirrored.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
    assert!(
        images.len() == 4 && images.iter().all(|image| image.starts_with("\"ghcr.m.daocloud.io/")),
        "{images:?}"
    );
}

#[test]
fn b_tools_run_where_and_with_what_the_values_say() {
    lab();
    let values = json!({
        "image": {"registry": "ferroband.lab", "repository": "tools", "tag": "1"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes()[0]]}]},
        ]}}},
        "extraAnnotations": {"example.com/note": "said"},
        "resources": {"limits": {"jarvice.com/rdma": 1}},
    });
    let file = std::env::temp_dir().join(format!("ferroband-values-{}.json", std::process::id()));
    std::fs::write(&file, values.to_string()).expect("a scratch file");
    let installed = helm(&[
        "install",
        "rdma-tools",
        &chart("rdma-tools"),
        "-f",
        &file.to_string_lossy(),
        "--wait",
        "--timeout=120s",
    ]);
    let _ = std::fs::remove_file(&file);
    let pods = get(&["pods", "-l", "app.kubernetes.io/name=rdma-tools"]);
    helm(&["uninstall", "rdma-tools", "--wait", "--timeout=60s"]).good();
    installed.good();
    let pod = &pods["items"][0];
    assert_eq!(pod["metadata"]["annotations"]["example.com/note"], "said");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["jarvice.com/rdma"], "1");
    assert_eq!(pod["spec"]["nodeName"], json!(nodes()[0]));
}

/// What of Ferroband is on the node.
fn left(node: &str) -> String {
    on(node, "ls /etc/cni/net.d /opt/cni/bin | grep -i ferroband; true").good()
}

#[test]
fn c_an_upgrade_keeps_pods_running_and_an_uninstall_leaves_nothing() {
    lab();
    let node = nodes()[0].clone();
    let mut objects = Objects::default();
    let config = json!({"cniVersion": "0.3.1", "name": "up", "type": "ipoib", "master": "ibs5f0", "ipam": {"type": "whereabouts", "range": "192.168.90.0/24"}});
    objects.apply(&definition("up", &config).to_string());
    let pod = |name: &str| attached_pod(name, &node, "up");
    objects.apply(&pod("before"));
    let before = objects.running("before", 120);

    helm(&[
        "upgrade",
        "ferroband",
        &chart("ferroband"),
        "-n",
        NAMESPACE,
        "--reuse-values",
        "--set",
        "log=debug",
        "--timeout=300s",
    ])
    .good();
    kubectl(&["-n", NAMESPACE, "rollout", "status", "ds/ferroband-node", "--timeout=180s"]).good();
    kubectl(&["-n", NAMESPACE, "rollout", "status", "deploy/ferroband-cluster", "--timeout=180s"]).good();
    let webhooks = || {
        get(&["mutatingwebhookconfigurations", "ferroband-webhook"])["webhooks"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert!(webhooks() >= 2, "the upgrade took the webhooks away");
    let after = objects.running("before", 10);
    assert_eq!(restarts(&before), restarts(&after));
    objects.apply(&pod("between"));
    objects.running("between", 120);

    helm(&["uninstall", "ferroband", "-n", NAMESPACE, "--timeout=400s", "--wait"]).good();
    for kind in [
        "clusterroles",
        "clusterrolebindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
    ] {
        let found = kubectl(&["get", kind, "-l", "app.kubernetes.io/name=ferroband", "-o", "name"]).good();
        assert_eq!(found.trim(), "", "{kind}");
    }
    let kinds = "all,secrets,leases,roles,rolebindings,serviceaccounts";
    let ours = ["-l", "app.kubernetes.io/name=ferroband", "-o", "name"];
    // Helm waits for what it deletes, not for the pods of it.
    eventually("nothing of it in its namespace", 90, || {
        let found = kubectl(&[&["-n", NAMESPACE, "get", kinds], &ours[..]].concat()).good();
        if found.trim().is_empty() { Ok(()) } else { Err(found) }
    });
    kubectl(&[
        "get",
        "crd",
        "addressgranules.ferroband.io",
        "network-attachment-definitions.k8s.cni.cncf.io",
    ])
    .good();
    // Pods go on running, and the last one takes the rest along.
    objects.running("before", 10);
    assert_ne!(left(&node), "");
    kubectl(&["delete", "pod", "before", "between", "--wait", "--timeout=60s"]).good();
    eventually("the node as it was", 60, || match left(&node) {
        rest if rest.is_empty() => Ok(()),
        rest => Err(rest),
    });
    objects.pod("alone", &node);
    objects.running("alone", 60);
}

fn restarts(pod: &Value) -> Vec<Value> {
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    statuses.iter().map(|status| status["restartCount"].clone()).collect()
}
