//! A node daemon's service account is limited to its node, wherever its token is used.

use ferroband_cluster_tests::node_account::NodeAccount;
use ferroband_cluster_tests::{LabOutput, TestObjects, kubectl, kubectl_get, node_names};
use serde_json::{Value, json};

const NAMESPACE: &str = "ferroband-system";

/// Runs kubectl with only that token.
fn kubectl_as(token: &str, args: &[&str]) -> LabOutput {
    kubectl(&[&["--token", token], args].concat())
}

/// Writes a pod's network-status as the daemon does: one PATCH without a prior read (kubectl would read).
fn patch_network_status(account: &NodeAccount, pod: &str) -> String {
    let patch = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": "[]"}}});
    account.request("PATCH", &format!("/api/v1/namespaces/default/pods/{pod}/status"), &patch).body
}

#[test]
fn node_token_cannot_change_objects_of_another_node() {
    let (mut objects, nodes) = (TestObjects::default(), node_names());
    objects.apply_pod("here", &nodes[0]).apply_pod("there", &nodes[1]);
    let account = NodeAccount::of_node(&nodes[0]);
    let who: Value = serde_json::from_str(
        &kubectl_as(account.token(), &["auth", "whoami", "-o", "json"]).stdout_or_panic(),
    )
    .expect("JSON");
    assert_eq!(
        who["status"]["userInfo"]["username"],
        "system:serviceaccount:ferroband-system:ferroband-node"
    );

    let own: Value = serde_json::from_str(&patch_network_status(&account, "here")).expect("JSON");
    assert_eq!(own["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"], "[]", "{own}");
    let other = patch_network_status(&account, "there");
    assert!(other.contains(&format!("not on node {}", nodes[0])), "{other}");
    // The status that its own node's daemon wrote is unchanged.
    let status =
        kubectl_get(&["pod", "there"])["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"]
            .clone();
    assert_ne!(status, "[]");

    let label = |node: &str| {
        kubectl_as(
            account.token(),
            &[
                "patch",
                "node",
                node,
                "--type=merge",
                "-p",
                r#"{"metadata":{"labels":{"ferroband.io/simulated":"true"}}}"#,
            ],
        )
    };
    label(&nodes[0]).stdout_or_panic();
    let other = label(&nodes[1]);
    assert!(!other.ok && other.err.contains(&format!("does not belong to node {}", nodes[0])), "{other:?}");

    let unbound = patch_network_status(&NodeAccount::unbound(), "here");
    assert!(unbound.contains("not bound to a node"), "{unbound}");
}

#[test]
fn node_token_changes_only_address_entries_of_its_node() {
    let nodes = node_names();
    let account = NodeAccount::of_node(&nodes[0]);
    let entry = |node: &str| json!({"pod": "default/x", "uid": "u", "interface": "net1", "container": "c", "node": node});
    let block = |entries: Value| {
        json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock", "metadata": {"name": "tried-10.250.0.0"},
            "spec": {"space": "network/tried", "first": "10.250.0.0", "entries": entries},
        })
        .to_string()
    };
    let mut objects = TestObjects::default();
    objects.apply(&block(json!({"1": entry(&nodes[1])})));
    let replace = |entries: Value| {
        let file = std::env::temp_dir().join(format!("ferroband-block-{}.json", std::process::id()));
        std::fs::write(&file, block(entries)).expect("a scratch file");
        let answer = kubectl_as(account.token(), &["replace", "-f", &file.to_string_lossy()]);
        let _ = std::fs::remove_file(&file);
        answer
    };
    replace(json!({"1": entry(&nodes[1]), "2": entry(&nodes[0])})).stdout_or_panic();
    for taken in [
        json!({}),
        json!({"2": entry(&nodes[0])}),
        json!({"1": entry(&nodes[0])}),
        json!({"1": entry(&nodes[1]), "3": entry(&nodes[1])}),
    ] {
        let answer = replace(taken.clone());
        assert!(
            !answer.ok && answer.err.contains(&format!("do not belong to node {}", nodes[0])),
            "{taken}: {answer:?}"
        );
    }
    replace(json!({"1": entry(&nodes[1])})).stdout_or_panic();
}

#[test]
fn service_accounts_have_no_unneeded_permissions() {
    let may = |account: &str, args: &[&str]| {
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
        kubectl(&[&["auth", "can-i", &account], args].concat()).out.trim() == "yes"
    };
    for right in [
        ["create", "pods"],
        ["delete", "pods"],
        ["get", "secrets"],
        ["delete", "nodes"],
        ["patch", "network-attachment-definitions"],
        ["delete", "addressblocks"],
        ["list", "ippools.whereabouts.cni.cncf.io"],
        ["list", "spiderippools"],
        ["list", "spiderendpoints"],
        ["patch", "addressstates"],
        ["patch", "spiderpoolcopies"],
    ] {
        assert!(!may("ferroband-node", &right), "ferroband-node: {right:?}");
    }
    for right in [
        ["create", "pods"],
        ["get", "secrets"],
        ["patch", "deployments"],
        ["patch", "namespaces"],
        ["create", "clusterroles"],
    ] {
        assert!(!may("ferroband-cluster", &right), "ferroband-cluster: {right:?}");
    }
    assert!(may("ferroband-node", &["patch", "pods", "--subresource=status"]), "`auth can-i` works");
}
