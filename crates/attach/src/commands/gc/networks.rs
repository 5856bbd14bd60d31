//! The networks whose plugins are called with GC, and the valid attachments of each.

use crate::ipc::plan::{Attachment, StepKind};
use crate::protocol::{CniVersion, PluginType};
use crate::state::journal::Journal;
use ferroband_config::remove_pod_values;
use serde_json::{Value, json};

/// Networks found in the journals and Multus files of this node.
#[derive(Debug, Default)]
pub(super) struct GcNetworks {
    known: Vec<Attachment>,
    /// Network, container and interface of each valid attachment.
    valid: Vec<(String, String, String)>,
    /// Whether the networks of a valid sandbox are unknown, because its journal is damaged.
    is_incomplete: bool,
}

impl GcNetworks {
    /// Record the networks of one sandbox. If the sandbox is valid, record its attachments as valid too.
    pub(super) fn record<'a>(
        &mut self,
        container: &str,
        attachments: impl Iterator<Item = &'a Attachment>,
        is_valid: bool,
    ) {
        for attachment in attachments {
            if !self.known.iter().any(|known| is_same_network(known, attachment)) {
                self.known.push(attachment.clone());
            }
            if is_valid {
                let Attachment { name, ifname, .. } = attachment;
                self.valid.push((name.clone(), container.to_owned(), ifname.clone()));
            }
        }
    }

    /// Record the networks of a sandbox whose journal is damaged, as far as they are known.
    pub(super) fn record_damaged(&mut self, salvaged: &Journal, is_valid: bool) {
        self.record(&salvaged.container, salvaged.entries.iter().map(|entry| &entry.attachment), is_valid);
        self.is_incomplete |= is_valid && salvaged.entries.is_empty();
    }

    /// Return every network once, with its list of valid attachments. A default network gets `runtime_list`,
    /// because that list also contains sandboxes without a journal or Multus file on this node. Networks with
    /// a CNI version before 1.1.0 are left out, because those versions have no GC. Networks whose list may be
    /// incomplete are left out, because their plugins would delete attachments that are in use.
    pub(super) fn into_gc_lists(
        self,
        wrapped: Vec<Attachment>,
        runtime_list: Value,
    ) -> Vec<(Attachment, Value)> {
        let Self { mut known, valid, is_incomplete } = self;
        known.retain(|network| network.default || !is_incomplete);
        let mut networks = wrapped;
        for network in known {
            if !networks.iter().any(|other| is_same_network(other, &network)) {
                networks.push(network);
            }
        }
        networks.retain(|network| network.version().is_ok_and(|version| version >= CniVersion::V1_1_0));
        let with_valid = |network: Attachment| {
            let on = valid.iter().filter(|(name, ..)| *name == network.name);
            let list = on.map(|(_, container, ifname)| json!({"containerID": container, "ifname": ifname}));
            let valid = if network.default { runtime_list.clone() } else { list.collect() };
            (network, valid)
        };
        networks.into_iter().map(with_valid).collect()
    }
}

/// The plugins of a network that are called with GC, and their standard input. In-process steps are cleaned
/// up from the journal, so only their delegated IPAM plugin is called.
pub(super) fn plugin_calls(network: &Attachment) -> Vec<(String, Vec<u8>)> {
    let call = |step: &crate::ipc::plan::PlanStep| {
        let plugin = match step.kind {
            StepKind::Foreign => step.plugin(),
            StepKind::Rdma { .. } | StepKind::Coordinator(_) => return None,
            _ if step.kind.uses_daemon_ipam() => return None,
            StepKind::Ipoib { .. } | StepKind::IbSriov { .. } => step.interface().ok()?.ipam_plugin?,
        };
        let mut step = step.clone();
        remove_pod_values(&mut step.config);
        (!PluginType::is_daemon_ipam(Some(plugin))).then(|| (plugin.to_owned(), network.stdin(&step, None)))
    };
    network.steps.iter().filter_map(call).collect()
}

/// Whether two attachments have the same network name and plugins, and both or neither are the default
/// network.
fn is_same_network(a: &Attachment, b: &Attachment) -> bool {
    let plugins = |of: &Attachment| of.steps.iter().map(|step| step.plugin().to_owned()).collect::<Vec<_>>();
    (&a.name, a.default, plugins(a)) == (&b.name, b.default, plugins(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(name: &str, ifname: &str, default: bool, version: &str) -> Attachment {
        let config = json!({"cniVersion": version, "name": name, "type": "x", "deviceID": "d"});
        Attachment::foreign(config.as_object().unwrap(), ifname, default).unwrap()
    }

    // Case: cni 105
    #[test]
    fn each_network_gets_its_valid_attachments_once() {
        let mut networks = GcNetworks::default();
        let pod = |net: &str| [network("k8s", "eth0", true, "1.1.0"), network("a", net, false, "1.1.0")];
        networks.record("c1", pod("net1").iter(), true);
        networks.record("c2", pod("net2").iter(), false);
        networks.record("c3", [network("old", "net1", false, "1.0.0")].iter(), true);
        let runtime_list =
            json!([{"containerID": "c1", "ifname": "eth0"}, {"containerID": "c9", "ifname": "eth0"}]);
        let lists = networks.into_gc_lists(vec![network("k8s", "", true, "1.1.0")], runtime_list.clone());
        let lists: Vec<_> =
            lists.iter().map(|(network, valid)| (network.name.as_str(), valid.clone())).collect();
        assert_eq!(lists, [("k8s", runtime_list), ("a", json!([{"containerID": "c1", "ifname": "net1"}]))]);
        let [(plugin, stdin)] = plugin_calls(&network("a", "net1", false, "1.1.0")).try_into().unwrap();
        assert!(plugin == "x" && !String::from_utf8(stdin).unwrap().contains("deviceID"));
    }
}
