//! The plan of an ADD, built by the node daemon and applied by `ferroband-cni`.
//!
//! ```text
//! Plan ── Attachment (one interface: eth0, net1, …) ── Step (one plugin of its chain)
//!           default network first, then annotation order      Foreign: another vendor's CNI binary
//!                                                              the others: in-process
//! ```
//!
//! The journal contains the plan, so DEL does not need the daemon.

#![warn(missing_docs)]

use crate::protocol::Error;
use ferroband_config::{
    CniVersion, ConfigError, ConfigFields, CoordinatorConfig, IbSriovConfig, InterfaceConfig, IpoibConfig,
    NetworkConfig, PluginType, RdmaConfig, plugin_name, plugin_stdin,
};
use ferroband_model::{PodPartitionRequest, PodRef};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// All attachments of one sandbox, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The pod that the sandbox belongs to, as resolved by the daemon.
    pub pod: PodRef,
    /// `CNI_CONTAINERID` of the sandbox.
    #[serde(default)]
    pub container: String,
    /// The attachments, default network first.
    pub attachments: Vec<Attachment>,
    /// Whether the pod's ports must become members of partitions. If so, the CNI process sends a `Members` request
    /// when all interfaces exist, before any of them has an address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub membership: bool,
    /// The ports of the pod that must be members of partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PodPartitionRequest>,
}

/// One network attachment of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Name in network-status: `<namespace>/<name>` of its NetworkAttachmentDefinition, or the CNI name of
    /// the default network.
    pub network: String,
    /// CNI network name, added to each plugin's configuration.
    pub name: String,
    /// `cniVersion` of the network configuration, such as `1.0.0`.
    pub cni_version: String,
    /// Interface name in the pod.
    pub ifname: String,
    /// Whether this is the pod's default network.
    pub default: bool,
    /// Plugins of the chain, in the order of ADD.
    pub steps: Vec<PlanStep>,
    /// The device that the kubelet allocated for this attachment; absent if it needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<AttachmentDevice>,
    /// Changes to the default routes through this interface, applied after all plugins have run.
    #[serde(default, skip_serializing_if = "DefaultRoutes::is_keep")]
    pub default_routes: DefaultRoutes,
    /// Pairs appended to `CNI_ARGS` for the plugins of this attachment: the legacy way to request `IP` and
    /// `MAC`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// Whether the network configuration disables CHECK.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
}

impl Attachment {
    /// Build an attachment whose plugins are all executed: that of the default network.
    pub fn foreign(config: &Map<String, Value>, ifname: &str, default: bool) -> Result<Self, Error> {
        let NetworkConfig { name, cni_version, plugins, disable_check, .. } =
            NetworkConfig::from_delegate(config)?;
        let step = |config| PlanStep { config, kind: StepKind::Foreign };
        Ok(Self {
            network: name.clone(),
            name,
            cni_version,
            ifname: ifname.to_owned(),
            default,
            steps: plugins.into_iter().map(step).collect(),
            unchecked: disable_check,
            ..Self::default()
        })
    }

    /// Parse `cni_version`. Fails if the version is not supported.
    pub fn version(&self) -> Result<CniVersion, Error> {
        let unknown = || ConfigError::IncompatibleVersion { version: self.cni_version.clone() };
        Ok(CniVersion::parse(&self.cni_version).ok_or_else(unknown)?)
    }

    /// Standard input for one step: the user's configuration plus the keys that its configuration list adds.
    ///
    /// `runtimeConfig` keeps only what the plugin's `capabilities` request; `capabilities` stays, as in libcni.
    pub fn stdin(&self, step: &PlanStep, previous: Option<&Value>) -> Vec<u8> {
        plugin_stdin(&step.config, &self.name, &self.cni_version, previous)
    }
}

/// A device that the kubelet allocated from the resource of a device plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentDevice {
    /// Name of the extended resource, as in the pod's resource requests.
    pub resource: String,
    /// Device ID, as registered with the kubelet.
    pub id: String,
}

/// Changes to the default routes of an attachment, per address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRoutes {
    /// Change to the IPv4 default route.
    #[serde(default)]
    pub v4: DefaultRoute,
    /// Change to the IPv6 default route.
    #[serde(default)]
    pub v6: DefaultRoute,
}

impl DefaultRoutes {
    /// Whether no change is requested.
    pub fn is_keep(&self) -> bool {
        *self == Self::default()
    }
}

/// Change to the default route of one address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DefaultRoute {
    /// Keep the default routes that the plugins set.
    #[default]
    Keep,
    /// Remove the default routes through this interface.
    Remove,
    /// Replace the default routes through this interface by one through this gateway.
    Via(IpAddr),
}

/// One plugin of an attachment's chain: its configuration and how it is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The user's plugin configuration, unmodified except for `runtimeConfig` and `args`, which the daemon
    /// merges in. `name`, `cniVersion` and `prevResult` are added when the plugin runs.
    pub config: Map<String, Value>,
    /// Which implementation runs the step, with its parsed settings.
    #[serde(rename = "by")]
    pub kind: StepKind,
}

impl PlanStep {
    /// `type` of the plugin.
    pub fn plugin(&self) -> &str {
        plugin_name(&self.config)
    }

    /// The settings of a plugin that creates an interface.
    pub(crate) fn interface(&self) -> Result<InterfaceConfig<'_>, Error> {
        Ok(InterfaceConfig::parse(&self.config)?)
    }
}

/// How a step is executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[non_exhaustive]
pub enum StepKind {
    /// By running the CNI binary named by `type`.
    Foreign,
    /// In-process: creates an IPoIB child of a host interface.
    Ipoib {
        /// Parent, MTU and partition key of the child.
        child: IpoibConfig,
        /// Whether the daemon assigns the interface's addresses; otherwise `ipam` is a foreign plugin or
        /// absent.
        #[serde(rename = "addressed")]
        daemon_ipam: bool,
    },
    /// In-process: attaches a virtual function of an adapter.
    IbSriov {
        /// PCI address of the function, and the settings to apply to it.
        vf: IbSriovConfig,
        /// Whether the daemon assigns the interface's addresses, as in [`Self::Ipoib`].
        #[serde(rename = "addressed")]
        daemon_ipam: bool,
    },
    /// In-process: moves the RDMA device of an earlier plugin's interface into the pod.
    Rdma {
        /// PCI address or auxiliary device name; derived from the interface's MAC address when absent.
        device: Option<String>,
    },
    /// In-process: sets up routes between the pod and its node.
    Coordinator(Box<CoordinatorConfig>),
}

impl StepKind {
    /// Parse a plugin configuration. Interface plugins, `rdma` and `coordinator` run in-process; all other
    /// types are foreign.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self, Error> {
        match PluginType::from_config(config)? {
            Some(plugin_type) => Self::for_plugin(plugin_type, config),
            None => Ok(Self::Foreign),
        }
    }

    /// Like [`Self::from_config`], for a known plugin type.
    pub(crate) fn for_plugin(plugin_type: PluginType, config: &Map<String, Value>) -> Result<Self, Error> {
        let interface = InterfaceConfig::parse(config)?;
        if plugin_type.is_interface() {
            interface.refuse_dhcp()?;
        }
        let (fields, daemon_ipam) = (ConfigFields(config), interface.uses_daemon_ipam());
        Ok(match plugin_type {
            PluginType::Ipoib => Self::Ipoib { child: IpoibConfig::parse(fields)?, daemon_ipam },
            PluginType::IbSriov => Self::IbSriov { vf: IbSriovConfig::parse(fields)?, daemon_ipam },
            PluginType::Rdma => Self::Rdma { device: RdmaConfig::parse(fields)?.device },
            PluginType::Coordinator => Self::Coordinator(Box::new(CoordinatorConfig::parse(fields)?)),
            PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => Self::Foreign,
        })
    }

    /// Whether the step uses a P_Key or a GUID of the user's choice, which the daemon must permit.
    pub fn uses_fabric_identity(&self) -> bool {
        match self {
            Self::Ipoib { child, .. } => child.pkey.is_some(),
            Self::IbSriov { vf, .. } => vf.pkey.is_some() || vf.guid.is_some(),
            Self::Foreign | Self::Rdma { .. } | Self::Coordinator(_) => false,
        }
    }

    /// Whether the daemon assigns the addresses of the step's interface.
    pub fn uses_daemon_ipam(&self) -> bool {
        matches!(self, Self::Ipoib { daemon_ipam: true, .. } | Self::IbSriov { daemon_ipam: true, .. })
    }
}

/// Addresses that the daemon assigned to one attachment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssignedAddresses {
    /// Position of the attachment in the plan.
    pub attachment: usize,
    /// Addresses with the prefix length of their subnet.
    pub ips: Vec<AssignedIp>,
    /// Routes of the IPAM configuration.
    pub routes: Vec<AssignedRoute>,
    /// DNS settings of the IPAM configuration, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Value>,
}

/// One address assigned to the pod, and the gateway of its subnet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedIp {
    /// Address with the prefix length of its subnet.
    pub address: IpNet,
    /// Gateway of the subnet, if any.
    pub gateway: Option<IpAddr>,
}

/// One route that belongs to an assigned address.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedRoute {
    /// Destination; `0.0.0.0/0` or `::/0` for a default route.
    pub dst: IpNet,
    /// Gateway; when absent, the first gateway of an assigned address of the same family.
    pub gw: Option<IpAddr>,
}

#[cfg(test)]
mod tests;
