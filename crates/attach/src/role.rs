//! As what `ferroband-cni` was called.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// One of the plugins that the one program is. The name it is started by decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginType {
    /// The meta plugin: the default network and all that the pod's annotation names.
    Ferroband,
    /// One IPoIB interface, called by somebody else's meta plugin or by a runtime.
    Ipoib,
    /// One virtual function, called in the same way.
    #[serde(rename = "ib-sriov")]
    IbSriov,
    /// The RDMA device behind the interface of an earlier plugin, called in the same way.
    Rdma,
    /// A pod's ways to its node, called in the same way.
    Coordinator,
    /// IPAM alone, called by somebody else's plugin.
    Whereabouts,
    /// The same, from pools that are objects.
    Spiderpool,
}

/// Other names of the meta plugin: the program's own, and those of the one that it stands in for.
const META_NAMES: [&str; 3] = ["ferroband-cni", "multus", "multus-shim"];

impl PluginType {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ferroband,
        Self::Ipoib,
        Self::IbSriov,
        Self::Rdma,
        Self::Coordinator,
        Self::Whereabouts,
        Self::Spiderpool,
    ];

    /// The role of a program started as `program`: the last part of the path counts.
    pub fn from_program(program: &Path) -> Option<Self> {
        let name = program.file_name()?.to_str()?;
        if META_NAMES.contains(&name) { Some(Self::Ferroband) } else { Self::from_name(name) }
    }

    /// The role called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether it handles whole sandboxes.
    pub fn is_meta(self) -> bool {
        matches!(self, Self::Ferroband)
    }

    /// Whether it makes one interface, with addresses of an IPAM plugin.
    pub fn is_interface(self) -> bool {
        matches!(self, Self::Ipoib | Self::IbSriov)
    }

    /// Whether it gives out addresses and does nothing else.
    pub const fn is_ipam(self) -> bool {
        matches!(self, Self::Whereabouts | Self::Spiderpool)
    }

    /// Whether the daemon assigns the addresses of a plugin whose `ipam` is of this type.
    pub fn is_daemon_ipam(ipam: Option<&str>) -> bool {
        ipam.and_then(Self::from_name).is_some_and(Self::is_ipam)
    }

    /// Whether it is called after the plugin that makes the interface.
    pub fn is_chained(self) -> bool {
        matches!(self, Self::Rdma | Self::Coordinator)
    }

    /// Its name, which is also the `type` in a configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ferroband => "ferroband",
            Self::Ipoib => "ipoib",
            Self::IbSriov => "ib-sriov",
            Self::Rdma => "rdma",
            Self::Coordinator => "coordinator",
            Self::Whereabouts => "whereabouts",
            Self::Spiderpool => "spiderpool",
        }
    }

    /// What it is, for somebody who started it by hand.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ferroband => "Ferroband: the pod's default network and its InfiniBand networks",
            Self::Ipoib => "Ferroband: IPoIB interfaces for pods",
            Self::IbSriov => "Ferroband: virtual functions of InfiniBand adapters for pods",
            Self::Coordinator => "Ferroband: a pod's ways to its node, to services and to other pods",
            Self::Rdma => "Ferroband: RDMA devices for pods, after the plugin that made the interface",
            Self::Whereabouts => "Ferroband: cluster-wide addresses for pods",
            Self::Spiderpool => "Ferroband: addresses for pods from pools",
        }
    }
}

impl fmt::Display for PluginType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_name_decides() {
        let role = |program: &str| PluginType::from_program(Path::new(program));
        assert_eq!(role("/opt/cni/bin/ipoib"), Some(PluginType::Ipoib));
        assert_eq!(role("/opt/cni/bin/ib-sriov"), Some(PluginType::IbSriov));
        assert_eq!(role("rdma"), Some(PluginType::Rdma));
        assert_eq!(role("coordinator"), Some(PluginType::Coordinator));
        assert_eq!(role("whereabouts"), Some(PluginType::Whereabouts));
        assert_eq!(role("spiderpool"), Some(PluginType::Spiderpool));
        assert!(
            PluginType::is_daemon_ipam(Some("spiderpool")) && PluginType::is_daemon_ipam(Some("whereabouts"))
        );
        assert!(
            !PluginType::is_daemon_ipam(Some("ipoib"))
                && !PluginType::is_daemon_ipam(Some("host-local"))
                && !PluginType::is_daemon_ipam(None)
        );
        assert_eq!(role("./ferroband-cni"), Some(PluginType::Ferroband));
        assert_eq!(role("/opt/cni/bin/multus"), Some(PluginType::Ferroband));
        assert_eq!(role("multus-shim"), Some(PluginType::Ferroband));
        assert_eq!(role("/opt/cni/bin/bridge"), None);
        assert_eq!(role(""), None);
    }
}
