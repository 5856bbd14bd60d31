//! Checks that the node daemons install the aliases of the CNI plugin that networks need.
//!
//! A plugin of another project executes its IPAM plugin as a program of the CNI directory. If that is Whereabouts or
//! Spiderpool, the program must be an alias of Ferroband's CNI plugin. Ferroband's own plugins need no alias.

use super::finding::{DoctorFinding, first_and_more};
use crate::status::ClusterObjects;
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_config::{InterfaceConfig, plugin_name};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// IPAM plugins that are aliases.
const IPAM_ALIASES: [&str; 2] = ["spiderpool", "whereabouts"];
/// Plugins that are part of Ferroband.
const OWN_PLUGINS: [&str; 2] = ["ib-sriov", "ipoib"];

/// Reports every alias that a network needs and that a node daemon does not install.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let daemons: Vec<BTreeSet<String>> = objects.pods.iter().filter_map(installed_aliases).collect();
    let mut needed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for definition in &objects.networks {
        for (plugin, alias) in needed_aliases(definition) {
            if daemons.iter().any(|installed| !installed.contains(alias)) {
                let network =
                    format!("{}/{}", definition.namespace().unwrap_or_default(), definition.name_any());
                needed.entry(alias).or_default().push(format!("{network} (plugin {plugin})"));
            }
        }
    }
    let finding = |(alias, networks): (&str, Vec<String>)| {
        let networks = first_and_more(&networks);
        DoctorFinding::problem(
            format!("CNI plugin alias {alias}"),
            format!("not installed by the node daemons, but needed by network {networks}"),
            format!("add {alias} to the Helm value node.aliases (`ferroband node --alias={alias}`)"),
        )
    };
    needed.into_iter().map(finding).collect()
}

/// Returns the plugins of the network that execute an alias, each with the alias.
fn needed_aliases(definition: &NetworkAttachmentDefinition) -> Vec<(String, &'static str)> {
    let plugins = definition.network_config().map(|config| config.plugins).unwrap_or_default();
    let needed = |plugin: &serde_json::Map<String, Value>| {
        let kind = plugin_name(plugin);
        let ipam = InterfaceConfig::parse(plugin).ok()?.ipam_plugin?;
        let alias = IPAM_ALIASES.into_iter().find(|alias| *alias == ipam)?;
        (!OWN_PLUGINS.contains(&kind)).then(|| (kind.to_owned(), alias))
    };
    plugins.iter().filter_map(needed).collect()
}

/// Returns the aliases in the arguments of a pod of the node daemon, and `None` for any other pod.
fn installed_aliases(pod: &Pod) -> Option<BTreeSet<String>> {
    let is = |label: &str, value: &str| pod.labels().get(label).is_some_and(|found| found == value);
    if !is("app.kubernetes.io/name", "ferroband") || !is("app.kubernetes.io/component", "node") {
        return None;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let words = containers.flat_map(|c| c.command.iter().flatten().chain(c.args.iter().flatten()));
    let mut aliases = BTreeSet::new();
    let mut follows = false;
    for word in words {
        let value = if follows { Some(word.as_str()) } else { word.strip_prefix("--alias=") };
        aliases.extend(value.into_iter().flat_map(|list| list.split(',')).map(str::to_owned));
        follows = word == "--alias";
    }
    Some(aliases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects(arguments: &[&str], config: Value) -> ClusterObjects {
        let labels = json!({"app.kubernetes.io/name": "ferroband", "app.kubernetes.io/component": "node"});
        let pod = json!({
            "metadata": {"name": "n", "labels": labels},
            "spec": {"containers": [{"name": "node", "args": arguments}]},
        });
        let network = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "lan", "namespace": "team"}, "spec": {"config": config.to_string()},
        });
        ClusterObjects {
            pods: vec![serde_json::from_value(pod).unwrap()],
            networks: vec![serde_json::from_value(network).unwrap()],
            ..ClusterObjects::default()
        }
    }

    #[test]
    fn a_network_that_needs_an_alias_is_reported_unless_it_is_installed() {
        let macvlan =
            || json!({"plugins": [{"type": "macvlan", "IPAM": {"type": "whereabouts"}}, {"type": "tuning"}]});
        let found = check(&objects(&["node", "--alias=ipoib,multus"], macvlan()));
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.observed.contains("team/lan (plugin macvlan)"), "{finding:?}");
        let remedy = finding.remedy.as_deref().unwrap();
        assert!(remedy.contains("node.aliases") && remedy.contains("whereabouts"), "{remedy}");
        for arguments in [&["node", "--alias=ipoib,whereabouts"][..], &["node", "--alias", "whereabouts"]] {
            assert_eq!(check(&objects(arguments, macvlan())), []);
        }
    }

    #[test]
    fn own_plugins_and_other_ipam_plugins_need_no_alias() {
        for config in [
            json!({"type": "ipoib", "ipam": {"type": "whereabouts"}}),
            json!({"type": "ib-sriov", "ipam": {"type": "spiderpool"}}),
            json!({"type": "macvlan", "ipam": {"type": "host-local"}}),
            json!({"type": "macvlan"}),
            json!("not a configuration"),
        ] {
            assert_eq!(check(&objects(&["node"], config)), []);
        }
    }
}
