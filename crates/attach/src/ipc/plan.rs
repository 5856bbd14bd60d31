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

use crate::protocol::{ConfigFields, Error, PluginType};
use crate::steps::{coordinator, ipoib, vf};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Guid, MacPrefix, PKey, PciAddress, PodPartitionRequest, PodRef};
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
        child: IpoibStep,
        /// Whether the daemon assigns the interface's addresses; otherwise `ipam` is a foreign plugin or
        /// absent.
        #[serde(rename = "addressed")]
        daemon_ipam: bool,
    },
    /// In-process: attaches a virtual function of an adapter.
    IbSriov {
        /// PCI address of the function, and the settings to apply to it.
        vf: VfStep,
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
    Coordinator(Box<CoordinatorStep>),
}

impl StepKind {
    /// Parse a plugin configuration. Interface plugins, `rdma` and `coordinator` run in-process; all other
    /// types are foreign.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self, Error> {
        let fields = ConfigFields(config);
        match PluginType::from_name(fields.text("type")?.unwrap_or_default()) {
            Some(plugin_type) => Self::for_plugin(plugin_type, fields),
            None => Ok(Self::Foreign),
        }
    }

    /// Like [`Self::from_config`], for a known plugin type.
    pub(crate) fn for_plugin(plugin_type: PluginType, fields: ConfigFields<'_>) -> Result<Self, Error> {
        let addressed = match fields.ipam_type()? {
            Some("dhcp") if plugin_type.is_interface() => return Err(Error::Dhcp),
            kind => PluginType::is_daemon_ipam(kind),
        };
        Ok(match plugin_type {
            PluginType::Ipoib => Self::Ipoib { child: ipoib::parse_config(fields)?, daemon_ipam: addressed },
            PluginType::IbSriov => Self::IbSriov { vf: vf::parse_config(fields)?, daemon_ipam: addressed },
            PluginType::Rdma => {
                let device = fields.text("deviceID")?.filter(|device| !device.is_empty());
                Self::Rdma { device: device.map(str::to_owned) }
            }
            PluginType::Coordinator => Self::Coordinator(Box::new(coordinator::parse_config(fields)?)),
            PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => Self::Foreign,
        })
    }

    /// Whether the daemon assigns the addresses of the step's interface.
    pub fn uses_daemon_ipam(&self) -> bool {
        matches!(self, Self::Ipoib { daemon_ipam: true, .. } | Self::IbSriov { daemon_ipam: true, .. })
    }
}

/// Settings of an IPoIB child interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpoibStep {
    /// Parent: name or altname of an IPoIB interface in the host namespace.
    pub parent: String,
    /// MTU to set, in bytes; the kernel's default when absent.
    pub mtu: Option<u32>,
    /// Partition key; that of the parent when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkey: Option<PKey>,
}

/// Settings of a virtual function for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VfStep {
    /// PCI address of the function.
    pub device: PciAddress,
    /// GUID to set; unchanged when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
    /// Link state to set; unchanged when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_state: Option<VfLinkState>,
    /// MTU to set, in bytes; the kernel's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether to move the RDMA device into the pod; when absent, only if the node's RDMA mode is exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<bool>,
    /// Whether the function must be bound to vfio-pci.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vfio: bool,
    /// Whether ib-kubernetes manages the function's GUID, so that a GUID is required.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub managed: bool,
}

/// Routes between a pod and its node, and to subnets that are reached through the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorStep {
    /// How the pod is connected to the node, and so whether it gets a veth pair.
    pub mode: CoordinatorMode,
    /// Subnets that are reached through the node: pods, services and others.
    pub subnets: Vec<IpNet>,
    /// Routes for the interface's own routing table, as (destination, gateway).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<(IpNet, IpAddr)>,
    /// First two bytes of the MAC address of an Ethernet interface; unchanged when absent.
    #[serde(rename = "mac", default, skip_serializing_if = "Option::is_none")]
    pub mac_prefix: Option<MacPrefix>,
    /// Whether to set up a routing table per interface.
    #[serde(rename = "tune")]
    pub tune_routes: bool,
    /// Name of the interface that gets the pod's default route; unchanged when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<String>,
    /// Number of the node's routing table for routes to pods.
    #[serde(rename = "table")]
    pub host_rule_table: u32,
    /// Value of the sysctl `rp_filter` for the pod's interfaces; unchanged when absent.
    #[serde(rename = "filter", default, skip_serializing_if = "Option::is_none")]
    pub rp_filter: Option<u8>,
    /// Transmit queue length of the interface, in packets; unchanged when absent.
    #[serde(rename = "queue", default, skip_serializing_if = "Option::is_none")]
    pub tx_queue_len: Option<u32>,
    /// MTU of the veth pair between pod and node, in bytes.
    #[serde(rename = "mtu")]
    pub veth_mtu: u32,
    /// Address of the pod's end of the veth pair; none when absent.
    #[serde(rename = "address", default, skip_serializing_if = "Option::is_none")]
    pub veth_address: Option<IpAddr>,
}

/// How the coordinator connects a pod to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorMode {
    /// Underlay for `eth0` and for pods that have a veth pair, otherwise overlay.
    Auto,
    /// The pod has no interface of the cluster network and gets a veth pair to the node.
    Underlay,
    /// The interface is additional to the one of the cluster network.
    Overlay,
    /// The coordinator changes nothing in the pod or on the node.
    Disabled,
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
