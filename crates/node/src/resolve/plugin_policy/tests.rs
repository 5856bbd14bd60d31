use super::*;
use serde_json::{Value, json};

fn check(policy: &NetworkAccessPolicy, network: &str, config: &Value) -> Result<(), Fault> {
    let selection = NetworkSelection::parse_networks(network, "own").unwrap().remove(0);
    policy.check_plugins(&selection, &NetworkConfig::parse(network, &config.to_string(), "x").unwrap())
}

fn listed(plugins: &[&str]) -> NetworkAccessPolicy {
    let plugins = plugins.iter().map(|plugin| (*plugin).to_owned()).collect();
    NetworkAccessPolicy { plugins: PluginPolicy::Listed(plugins), ..NetworkAccessPolicy::default() }
}

#[test]
fn by_default_every_plugin_may_be_used() {
    assert_eq!(check(&NetworkAccessPolicy::default(), "own/x", &json!({"type": "anything"})), Ok(()));
}

#[test]
fn with_a_list_only_built_in_and_listed_plugins_may_be_used() {
    let policy = listed(&["tuning", "host-local"]);
    for allowed in [
        json!({"type": "ipoib", "ipam": {"type": "whereabouts"}}),
        json!({"type": "ib-sriov", "ipam": {"type": "host-local"}}),
        json!({"plugins": [{"type": "ipoib", "ipam": {}}, {"type": "tuning"}, {"type": "coordinator"}]}),
    ] {
        assert_eq!(check(&policy, "own/x", &allowed), Ok(()), "{allowed}");
    }
    for refused in [
        json!({"type": "evil"}),
        json!({"TYPE": "evil"}),
        json!({"plugins": [{"type": "ipoib"}, {"type": "evil"}]}),
        json!({"PLUGINS": [{"Type": "evil"}]}),
        json!({"type": "ipoib", "ipam": {"type": "evil"}}),
        json!({"type": "ipoib", "IPAM": {"tYpE": "evil"}}),
        json!({"plugins": [{"type": "tuning", "ipam": {"type": "evil"}}]}),
    ] {
        let fault = check(&policy, "own/x", &refused).unwrap_err();
        assert!(
            fault.cause.contains("\"evil\"") && fault.cause.contains("networks.plugins: listed"),
            "{fault}"
        );
        assert_eq!(fault.what, "network own/x");
        assert_eq!(check(&policy, "kube-system/x", &refused), Ok(()), "a trusted namespace");
    }
    // Names are compared exactly, because the runtime looks for a file of this name.
    assert!(check(&policy, "own/x", &json!({"type": "Tuning"})).is_err());
}
