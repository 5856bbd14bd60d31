//! The image ferroband-tools: its programs run in the node daemon's pods, and Ferroband works as with its own image.

use ferroband_cluster_tests::{
    TestObjects, kubectl, kubectl_get, network_definition, node_names, pod_with_networks, start_own_lab,
};
use serde_json::json;

/// Runs a command in the pod of the node daemon.
#[track_caller]
fn exec_in_daemon(command: &[&str]) -> String {
    let label = "app.kubernetes.io/component=node";
    let pods = kubectl_get(&["-n", "ferroband-system", "pods", "-l", label]);
    let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{pods}")).to_owned();
    kubectl(&[&["-n", "ferroband-system", "exec", &pod, "--"], command].concat()).stdout_or_panic()
}

#[test]
fn node_daemon_with_tools_attaches_pods_and_has_the_programs() {
    start_own_lab(&["--nodes", "1", "--tools"]);
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    for (program, version) in [
        ("opensm --version", "OpenSM"),
        ("mstconfig -v", "mstflint"),
        ("sminfo --version", "sminfo"),
        ("ibstat -V", "ibstat"),
        ("ib_write_bw --version", "Version"),
    ] {
        // Some print their version to the standard error, or end with 1 afterwards.
        let found = exec_in_daemon(&["sh", "-c", &format!("{program} 2>&1; true")]);
        assert!(found.contains(version), "{program}: {found}");
    }
    // Mounts below /run are visible under both names, as on the host.
    exec_in_daemon(&["test", "/run", "-ef", "/var/run"]);
    for folder in ["netns", "k8s.cni.cncf.io", "cdi", "ferroband"] {
        exec_in_daemon(&["ls", &format!("/run/{folder}")]);
    }
    let config = json!({"cniVersion": "1.0.0", "name": "ib-tools", "plugins": [
        {"type": "ipoib", "master": "ibs5f0", "ipam": {"type": "whereabouts", "range": "172.92.0.0/24"}},
    ]});
    objects.apply(&network_definition("ib-tools", &config).to_string());
    objects.apply(&pod_with_networks("with-tools", &nodes[0], "ib-tools"));
    objects.wait_ready("with-tools", 120);
}
