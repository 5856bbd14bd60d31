//! Plugin type, selected by argv[0].

use crate::{ConfigError, ConfigFields};
use ferroband_model::named_enum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

named_enum! {
    /// One of the CNI plugins that the `ferroband-cni` binary implements. The name in argv[0] selects it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PluginType {
        /// The meta plugin: attaches the default network and all networks of the pod's annotation.
        Ferroband = "ferroband",
        /// Creates one IPoIB interface. Called by another meta plugin or by a runtime.
        Ipoib = "ipoib",
        /// Attaches one virtual function. Called like `Ipoib`.
        #[serde(rename = "ib-sriov")]
        IbSriov = "ib-sriov",
        /// Moves the RDMA device of an earlier plugin's interface into the pod. Called like `Ipoib`.
        Rdma = "rdma",
        /// Sets up routes between the pod and its node. Called like `Ipoib`.
        Coordinator = "coordinator",
        /// Only assigns addresses (IPAM). Called by the plugin that creates the interface.
        Whereabouts = "whereabouts",
        /// Only assigns addresses (IPAM), from SpiderIPPool objects. Called like `Whereabouts`.
        Spiderpool = "spiderpool",
    }
}

/// Other names of the meta plugin: the binary's own, and those of Multus.
const META_NAMES: [&str; 3] = ["ferroband-cni", "multus", "multus-shim"];

impl PluginType {
    /// The plugin type for argv[0] `program`. Only the file name counts.
    pub fn from_program(program: &Path) -> Option<Self> {
        let name = program.file_name()?.to_str()?;
        if META_NAMES.contains(&name) { Some(Self::Ferroband) } else { Self::from_name(name) }
    }

    /// The plugin type of a configuration; `None` for any other plugin.
    pub fn from_config(config: &Map<String, Value>) -> Result<Option<Self>, ConfigError> {
        Ok(Self::from_name(ConfigFields(config).text("type")?.unwrap_or_default()))
    }

    /// Whether the plugin attaches all networks of a sandbox.
    pub fn is_meta(self) -> bool {
        matches!(self, Self::Ferroband)
    }

    /// Whether the plugin creates one interface, with addresses from an IPAM plugin.
    pub fn is_interface(self) -> bool {
        matches!(self, Self::Ipoib | Self::IbSriov)
    }

    /// Whether the plugin only assigns addresses.
    pub const fn is_ipam(self) -> bool {
        matches!(self, Self::Whereabouts | Self::Spiderpool)
    }

    /// Whether the daemon serves this `ipam.type`.
    pub fn is_daemon_ipam(ipam: Option<&str>) -> bool {
        ipam.and_then(Self::from_name).is_some_and(Self::is_ipam)
    }

    /// Whether the plugin runs after the plugin that creates the interface.
    pub fn is_chained(self) -> bool {
        matches!(self, Self::Rdma | Self::Coordinator)
    }

    /// One-line description for `--help`.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ferroband => "Ferroband: the pod's default network and its InfiniBand networks",
            Self::Ipoib => "Ferroband: IPoIB interfaces for pods",
            Self::IbSriov => "Ferroband: virtual functions of InfiniBand adapters for pods",
            Self::Coordinator => "Ferroband: routes between a pod and its node, services and other pods",
            Self::Rdma => {
                "Ferroband: RDMA devices for pods, chained after the plugin that creates the interface"
            }
            Self::Whereabouts => "Ferroband: cluster-wide addresses for pods",
            Self::Spiderpool => "Ferroband: addresses for pods from pools",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_type_has_one_place_in_a_call() {
        let places = |plugin_type: PluginType| {
            let places = [
                plugin_type.is_meta(),
                plugin_type.is_interface(),
                plugin_type.is_chained(),
                plugin_type.is_ipam(),
            ];
            places.map(u8::from)
        };
        for (plugin_type, expected) in [
            (PluginType::Ferroband, [1, 0, 0, 0]),
            (PluginType::Ipoib, [0, 1, 0, 0]),
            (PluginType::IbSriov, [0, 1, 0, 0]),
            (PluginType::Rdma, [0, 0, 1, 0]),
            (PluginType::Coordinator, [0, 0, 1, 0]),
            (PluginType::Whereabouts, [0, 0, 0, 1]),
            (PluginType::Spiderpool, [0, 0, 0, 1]),
        ] {
            assert_eq!(places(plugin_type), expected, "{plugin_type}");
        }
    }

    #[test]
    fn argv0_selects_the_plugin_type() {
        let plugin_type = |program: &str| PluginType::from_program(Path::new(program));
        assert_eq!(plugin_type("/opt/cni/bin/ipoib"), Some(PluginType::Ipoib));
        assert_eq!(plugin_type("/opt/cni/bin/ib-sriov"), Some(PluginType::IbSriov));
        assert_eq!(plugin_type("rdma"), Some(PluginType::Rdma));
        assert_eq!(plugin_type("coordinator"), Some(PluginType::Coordinator));
        assert_eq!(plugin_type("whereabouts"), Some(PluginType::Whereabouts));
        assert_eq!(plugin_type("spiderpool"), Some(PluginType::Spiderpool));
        assert!(
            PluginType::is_daemon_ipam(Some("spiderpool")) && PluginType::is_daemon_ipam(Some("whereabouts"))
        );
        assert!(
            !PluginType::is_daemon_ipam(Some("ipoib"))
                && !PluginType::is_daemon_ipam(Some("host-local"))
                && !PluginType::is_daemon_ipam(None)
        );
        assert_eq!(plugin_type("./ferroband-cni"), Some(PluginType::Ferroband));
        assert_eq!(plugin_type("/opt/cni/bin/multus"), Some(PluginType::Ferroband));
        assert_eq!(plugin_type("multus-shim"), Some(PluginType::Ferroband));
        assert_eq!(plugin_type("/opt/cni/bin/bridge"), None);
        assert_eq!(plugin_type(""), None);
    }
}
