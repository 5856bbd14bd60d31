//! Attacks with the plugins of NetworkAttachmentDefinitions: each is a program that would run as root on the node.

use crate::fixture::{ATTACKER, HostileFixture, NETWORKS, ipoib, try_apply};
use ferroband_cluster_tests::{TestObjects, chart_path, eventually, helm, kubectl_with, network_definition};
use serde_json::{Value, json};

const RULE: &str = "networks.plugins: listed";

/// Creates a network with this configuration, and a pod that uses it.
#[track_caller]
fn assert_plugin_refused(hostile: &mut HostileFixture, name: &str, config: &Value, rule: &str) {
    hostile.apply_network(name, config);
    hostile.assert_pod_refused(name, &json!({NETWORKS: name}), rule);
}

pub fn n_unlisted_plugin_is_refused(hostile: &mut HostileFixture) {
    let config = json!({"cniVersion": "1.0.0", "type": "host-device", "device": "eth0"});
    assert_plugin_refused(hostile, "steals-uplink", &config, RULE);
}

pub fn n_unlisted_plugin_in_a_chain_is_refused(hostile: &mut HostileFixture) {
    let chain = json!({"cniVersion": "1.0.0", "plugins": [ipoib(), {"type": "tuning", "sysctl": {}}]});
    assert_plugin_refused(hostile, "chained", &chain, RULE);
}

pub fn n_unlisted_plugin_in_other_letter_case_is_refused(hostile: &mut HostileFixture) {
    let config = json!({"cniVersion": "1.0.0", "PLUGINS": [{"TyPe": "bridge"}]});
    assert_plugin_refused(hostile, "letter-case", &config, RULE);
}

pub fn n_unlisted_ipam_plugin_is_refused(hostile: &mut HostileFixture) {
    let mut config = ipoib();
    config["ipam"] = json!({"type": "host-local", "subnet": "10.99.0.0/24"});
    assert_plugin_refused(hostile, "ipam", &config, RULE);
}

/// A definition without a configuration uses a file of the node. This one is the cluster's default network.
pub fn n_unlisted_plugin_of_a_file_is_refused(hostile: &mut HostileFixture) {
    let mut network = network_definition("lab", &json!({}));
    network["metadata"]["namespace"] = json!(ATTACKER);
    network["spec"] = json!({});
    hostile.objects.apply(&network.to_string());
    hostile.assert_pod_refused("from-file", &json!({NETWORKS: "lab"}), RULE);
}

/// The fixture lists `multus` and `ferroband`, so only the rule about meta plugins refuses them.
pub fn n_meta_plugin_is_refused(hostile: &mut HostileFixture) {
    for plugin in ["multus", "ferroband"] {
        let config = json!({"cniVersion": "1.0.0", "type": plugin, "delegates": [{"type": "bridge"}]});
        assert_plugin_refused(hostile, &format!("meta-{plugin}"), &config, "meta plugin");
    }
}

pub fn n_hidden_plugin_types_are_refused_at_admission(hostile: &mut HostileFixture) {
    let values = ["--set", "networks.plugins=listed", "--set", "trustedNamespaces={kube-system}"];
    let chart = chart_path("ferroband");
    let template = [
        "template",
        "hostile",
        &chart,
        "-n",
        "ferroband-system",
        "--show-only",
        "templates/network-plugins.yaml",
    ];
    let policy = helm(&[&template[..], &values].concat()).stdout_or_panic();
    // Deleted at the end of this test: it would reject the networks of others.
    let mut policy_objects = TestObjects::default();
    policy_objects.apply(&policy);
    let network = |text: &str| {
        let mut network = network_definition("hidden", &json!({}));
        network["metadata"]["namespace"] = json!(ATTACKER);
        network["spec"]["config"] = json!(text);
        network
    };
    for (text, rule) in [
        (r#"{"t\u0079pe": "bridge"}"#, r"\u escapes"),
        (r#"{"TYPE": "bridge"}"#, "not listed"),
        (r#"{"type" : "bridge"}"#, "not listed"),
        (r#"{"type": "ipoib", "ipam": {"type": "evil"}}"#, "not listed"),
    ] {
        // A new policy takes effect after a moment. Nothing is stored until then: an unchanged object is not checked.
        eventually(&format!("{text} is refused"), 30, || {
            let answer = kubectl_with(&["create", "--dry-run=server", "-f", "-"], &network(text).to_string());
            if !answer.ok && answer.err.contains(rule) { Ok(()) } else { Err(format!("{answer:?}")) }
        });
    }
    let honest = network(&ipoib().to_string());
    hostile.objects.track(&honest.to_string());
    try_apply(&honest).stdout_or_panic();
    hostile.assert_victim_unchanged();
}
