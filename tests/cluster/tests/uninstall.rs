//! Taking Ferroband off nodes that have pods: they go on, and their later deletion cleans up.

use ferroband_cluster_tests::evidence::{interface, ipv4, kept_on};
use ferroband_cluster_tests::{
    Objects, attached_pod as pod, definition, eventually, inside, kubectl, nodes, on, own_lab,
};
use serde_json::json;

#[test]
fn pods_outlive_an_uninstall_and_the_last_one_cleans_up() {
    own_lab(&["--nodes", "1"]);
    let (mut objects, node) = (Objects::default(), nodes()[0].clone());
    let config = json!({"cniVersion": "1.0.0", "name": "stay", "type": "ipoib", "master": "ib0",
        "ipam": {"type": "whereabouts", "range": "192.168.88.0/24"}});
    objects.apply(&definition("stay", &config).to_string());
    objects.apply(&pod("stay-a", &node, "stay"));
    objects.apply(&pod("stay-b", &node, "stay"));
    for name in ["stay-a", "stay-b"] {
        objects.running(name, 120);
    }
    let (address, _) = ipv4(&interface("stay-b", "net1"));

    // As a chart's hook would: on the node, with the daemon still there; then the daemon goes.
    let label = "app.kubernetes.io/component=node";
    let daemon = kubectl(&["get", "pods", "-n", "ferroband-system", "-l", label, "-o", "name"]).good();
    let told =
        kubectl(&["exec", "-n", "ferroband-system", daemon.trim(), "--", "ferroband", "uninstall"]).good();
    assert!(told.contains("the last one to go takes it along"), "{told}");
    kubectl(&["delete", "daemonset", "ferroband-node", "-n", "ferroband-system", "--wait", "--timeout=90s"])
        .good();

    inside("stay-a", &format!("ping -c 2 -w 20 -I net1 {address}")).good();
    // A new pod gets the cluster's own network, whatever it asks for.
    objects.apply(&pod("after", &node, "stay"));
    objects.running("after", 120);
    assert!(!inside("after", "ip -br link").good().contains("net1"));

    let ours = || on(&node, "ls /etc/cni/net.d /opt/cni/bin | grep -i ferroband; true").good();
    assert_ne!(ours(), "", "needed as long as a pod of ours runs");
    kubectl(&["delete", "pod", "stay-a", "--wait", "--timeout=60s"]).good();
    assert_ne!(ours(), "", "still needed");
    kubectl(&["delete", "pod", "stay-b", "after", "--wait", "--timeout=60s"]).good();
    eventually("nothing of ours is left", 60, || {
        let left = format!("{}{}", ours(), kept_on(&node).replace("owed", ""));
        let left: Vec<_> = left.lines().filter(|line| !line.ends_with(".json")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    objects.apply(&pod("bare", &node, ""));
    objects.running("bare", 120);
    objects.go_with_the_lab();
}
