//! Plugin type, selected by argv[0], and supported versions of the CNI specification.

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

    /// Whether a plugin of this name attaches all networks of a sandbox. A path counts by its file name.
    pub fn is_meta_name(name: &str) -> bool {
        Self::from_program(Path::new(name)).is_some_and(Self::is_meta)
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

named_enum! {
    /// A version of the CNI specification. Newer versions compare greater.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CniVersion {
        /// 0.1.0; also the default for a configuration without `cniVersion`.
        V0_1_0 = "0.1.0",
        /// 0.2.0: the last version with a single address per family.
        V0_2_0 = "0.2.0",
        /// 0.3.0: results list interfaces, and any number of addresses.
        V0_3_0 = "0.3.0",
        /// 0.3.1: plugin chains.
        V0_3_1 = "0.3.1",
        /// 0.4.0: CHECK, and `prevResult` on DEL.
        V0_4_0 = "0.4.0",
        /// 1.0.0: addresses in results have no `version` field any more.
        V1_0_0 = "1.0.0",
        /// 1.1.0: GC and STATUS.
        V1_1_0 = "1.1.0",
    }
}

impl CniVersion {
    /// The newest supported version.
    pub const NEWEST: Self = Self::V1_1_0;

    /// Parse a version. An empty text means 0.1.0.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(Self::V0_1_0) } else { Self::from_name(text) }
    }

    /// All versions, separated by commas.
    pub fn supported_list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

#[cfg(test)]
mod tests;
