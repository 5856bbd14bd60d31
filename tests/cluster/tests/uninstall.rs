//! Uninstalling Ferroband from nodes with pods: they keep running, and deleting the last one cleans up.

use ferroband_cluster_tests::inspect::{block_entries, first_ipv4, leftover_state, pod_interface};
use ferroband_cluster_tests::{
    TestObjects, eventually, exec_in_pod, exec_on, ferroband, kubectl, kubectl_get, network_definition,
    node_names, pod_with_networks as pod, start_own_lab,
};
use serde_json::json;

/// Lists Ferroband's files on a node, except those of simulated hardware and of adapters that policies configured.
const LIST_FILES: &str = "find /var/lib/ferroband /run/ferroband -mindepth 1 \
    -not -path '/var/lib/ferroband/sim*' -not -path '/var/lib/ferroband/configure*' \
    -not -name 'simulation.*' 2>/dev/null; ls -d /var/lib/kubelet/device-plugins/ferroband-* 2>/dev/null; true";

#[test]
fn pods_keep_running_after_uninstall_and_the_last_one_cleans_up() {
    start_own_lab(&["--nodes", "1"]);
    let (mut objects, node) = (TestObjects::default(), node_names()[0].clone());
    let config = json!({"cniVersion": "1.0.0", "name": "stay", "type": "ipoib", "master": "ib0",
        "ipam": {"type": "whereabouts", "range": "192.168.88.0/24"}});
    objects.apply(&network_definition("stay", &config).to_string());
    objects.apply(&pod("stay-a", &node, "stay"));
    objects.apply(&pod("stay-b", &node, "stay"));
    for name in ["stay-a", "stay-b"] {
        objects.wait_ready(name, 120);
    }
    let (address, _) = first_ipv4(&pod_interface("stay-b", "net1"));

    // As the chart's hook does: uninstall on the node while the daemon runs, then delete the daemon.
    let label = "app.kubernetes.io/component=node";
    let daemon =
        kubectl(&["get", "pods", "-n", "ferroband-system", "-l", label, "-o", "name"]).stdout_or_panic();
    let output = kubectl(&["exec", "-n", "ferroband-system", daemon.trim(), "--", "ferroband", "uninstall"])
        .stdout_or_panic();
    assert!(output.contains("removed when the last of them is deleted"), "{output}");
    assert!(output.contains("stays: addresses and partition members"), "{output}");
    kubectl(&["delete", "daemonset", "ferroband-node", "-n", "ferroband-system", "--wait", "--timeout=90s"])
        .stdout_or_panic();

    exec_in_pod("stay-a", &format!("ping -c 2 -w 20 -I net1 {address}")).stdout_or_panic();
    // A new pod gets only the default network, regardless of its annotation.
    objects.apply(&pod("after", &node, "stay"));
    objects.wait_ready("after", 120);
    assert!(!exec_in_pod("after", "ip -br link").stdout_or_panic().contains("net1"));

    let cni_files =
        || exec_on(&node, "ls /etc/cni/net.d /opt/cni/bin | grep -i ferroband; true").stdout_or_panic();
    assert_ne!(cni_files(), "", "needed while an attached pod runs");
    kubectl(&["delete", "pod", "stay-a", "--wait", "--timeout=60s"]).stdout_or_panic();
    assert_ne!(cni_files(), "", "still needed");
    kubectl(&["delete", "pod", "stay-b", "--wait", "--timeout=60s"]).stdout_or_panic();
    // The pod `after` has only the default network, whose own plugins can delete it.
    eventually("no files of Ferroband left", 60, || {
        let left = format!("{}{}", cni_files(), leftover_state(&node).replace("owed", ""));
        let left: Vec<_> = left.lines().filter(|line| !line.ends_with(".json")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    kubectl(&["delete", "pod", "after", "--wait", "--timeout=60s"]).stdout_or_panic();
    objects.apply(&pod("bare", &node, ""));
    objects.wait_ready("bare", 120);

    // Only the simulated hardware is left on the node.
    eventually("no state, socket or lock left", 60, || {
        let left = exec_on(&node, LIST_FILES).stdout_or_panic();
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    // Nobody released the addresses of the deleted pods. The command removes them from the API server, with the rest.
    let output = ferroband(&["uninstall", "--all-nodes"]).stdout_or_panic();
    assert!(output.contains("removed:") && output.contains("stays: CRDs"), "{output}");
    assert_eq!(block_entries(), [], "{output}");
    let kinds = [
        "addressblocks",
        "addressindexes",
        "addressstates",
        "spiderpoolcopies",
        "nodepartitions",
        "fabrics",
        "subnetmanagerhosts",
    ];
    for kind in kinds {
        let found = kubectl(&["get", &format!("{kind}.ferroband.io"), "-o", "name"]).stdout_or_panic();
        assert_eq!(found.trim(), "", "{kind}: {output}");
    }
    let object = kubectl_get(&["node", &node]);
    assert!(object["metadata"]["labels"]["ferroband.io/simulated"].is_null(), "{object}");
    let conditions = object["status"]["conditions"].to_string();
    assert!(!conditions.contains("Ferroband"), "{conditions}");
    let daemons = kubectl(&["get", "pods", "-n", "ferroband-system", "-o", "name"]).stdout_or_panic();
    assert_eq!(daemons.trim(), "", "the cluster daemon is stopped");
    objects.leave_to_lab_teardown();
}
