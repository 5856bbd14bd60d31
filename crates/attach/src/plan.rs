//! What an ADD has to do, decided by the node daemon and carried out by `ferroband-cni`.
//!
//! ```text
//! Plan ── Attachment (one interface: eth0, net1, …) ── Step (one plugin of its chain)
//!           default network first, then annotation order      Foreign: somebody's CNI binary
//!                                                              the others: done in-process
//! ```
//!
//! A plan is also what the journal keeps, so a DEL needs nobody else to know what was done.

#![warn(missing_docs)]

use crate::{ConfigFields, Error, PluginType, coordinator, ipoib, vf};
use ferroband_kernel::rtnetlink::VfLinkState;
use ferroband_model::{Guid, PKey, PciAddress, PodRef};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Everything one sandbox gets, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The pod the sandbox belongs to.
    pub pod: PodRef,
    /// The attachments, default network first.
    pub attachments: Vec<Attachment>,
    /// Whether the ports of the pod have to become members of partitions first: then the daemon is asked to
    /// wait for that when all interfaces exist, before any of them has an address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub membership: bool,
}

/// One interface of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// What network-status calls it: `<namespace>/<name>` of its definition, or the CNI name of the default network.
    pub network: String,
    /// The CNI network name, put into each plugin's configuration.
    pub name: String,
    /// The CNI version of its configuration.
    pub cni_version: String,
    /// The interface in the pod.
    pub ifname: String,
    /// Whether this is the pod's default network.
    pub default: bool,
    /// Its plugins in order.
    pub steps: Vec<PlanStep>,
    /// The device that the kubelet gave the pod for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<AttachmentDevice>,
    /// What becomes of its default routes once everything else is done.
    #[serde(default, skip_serializing_if = "DefaultRoutes::is_keep")]
    pub default_routes: DefaultRoutes,
    /// Pairs that its plugins find in `CNI_ARGS` besides the runtime's: the old way to ask for `IP` and `MAC`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// Whether its configuration switches CHECK off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
}

/// A device of a device plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentDevice {
    /// The resource that it was allocated as.
    pub resource: String,
    /// Its id, as the device plugin told the kubelet.
    pub id: String,
}

/// What becomes of the default routes of an attachment, for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRoutes {
    /// IPv4.
    #[serde(default)]
    pub v4: DefaultRoute,
    /// IPv6.
    #[serde(default)]
    pub v6: DefaultRoute,
}

impl DefaultRoutes {
    /// Whether nothing is to be done.
    pub fn is_keep(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of the default route of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DefaultRoute {
    /// It stays as the plugins made it.
    #[default]
    Keep,
    /// There is none: it goes through another interface, or through none.
    Remove,
    /// It goes through this gateway, and no other.
    Via(IpAddr),
}

/// One plugin of an attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// The plugin's configuration as the user wrote it, losslessly, with `runtimeConfig` and `args` already
    /// merged by the daemon; `name`, `cniVersion` and `prevResult` are added when it runs.
    pub config: Map<String, Value>,
    /// Who does it.
    #[serde(rename = "by")]
    pub kind: StepKind,
}

/// Who carries a step out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[non_exhaustive]
pub enum StepKind {
    /// The CNI binary named by `type`, executed.
    Foreign,
    /// Ferroband itself: an IPoIB child of a host interface.
    Ipoib {
        /// The child to make.
        child: IpoibStep,
        /// Whether the daemon assigns its addresses (else `ipam` is foreign or absent).
        #[serde(rename = "addressed")]
        daemon_ipam: bool,
    },
    /// Ferroband itself: a virtual function of an adapter.
    IbSriov {
        /// The function, and what is set on it.
        vf: VfStep,
        /// As for [`Self::Ipoib`].
        #[serde(rename = "addressed")]
        daemon_ipam: bool,
    },
    /// Ferroband itself: the RDMA device behind the interface of an earlier plugin.
    Rdma {
        /// A PCI address or the name of an auxiliary device; found by the interface's address when absent.
        device: Option<String>,
    },
    /// Ferroband itself: the pod's ways to its node.
    Coordinator(Box<CoordinatorStep>),
}

impl StepKind {
    /// Who carries out the plugin of a configuration: we, for the types that we stand in for.
    pub fn from_config(config: &Map<String, Value>) -> Result<Self, Error> {
        let fields = ConfigFields(config);
        match PluginType::from_name(fields.text("type")?.unwrap_or_default()) {
            Some(role) => Self::for_plugin(role, fields),
            None => Ok(Self::Foreign),
        }
    }

    /// The same for a plugin whose role is known.
    pub(crate) fn for_plugin(role: PluginType, fields: ConfigFields<'_>) -> Result<Self, Error> {
        let addressed = match fields.ipam_type()? {
            Some("dhcp") if role.is_interface() => return Err(Error::Dhcp),
            kind => PluginType::is_daemon_ipam(kind),
        };
        Ok(match role {
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

    /// Whether the daemon assigns addresses for it.
    pub fn uses_daemon_ipam(&self) -> bool {
        matches!(self, Self::Ipoib { daemon_ipam: true, .. } | Self::IbSriov { daemon_ipam: true, .. })
    }
}

/// An IPoIB child interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpoibStep {
    /// The parent: a name or altname of an IPoIB interface in the host's namespace.
    pub parent: String,
    /// MTU to set; the kernel's choice when absent.
    pub mtu: Option<u32>,
    /// The partition that it is in; its parent's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkey: Option<PKey>,
}

/// A virtual function for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VfStep {
    /// The function.
    pub device: PciAddress,
    /// The GUID that it is to have; the one that it has when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Guid>,
    /// The link state that it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_state: Option<VfLinkState>,
    /// MTU to set; the kernel's choice when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether the pod gets the RDMA device for itself; as the node's mode is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<bool>,
    /// Whether the function must be vfio-pci's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vfio: bool,
    /// Whether a fabric manager decides about its GUID, so that it must have been given one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub managed: bool,
}

/// The ways of a pod to its node, and to what the node knows the way to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorStep {
    /// Which of the two arrangements.
    pub mode: CoordinatorMode,
    /// What is reached through the node: the subnets of pods and of services, and others.
    pub subnets: Vec<IpNet>,
    /// Routes of the interface's own table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<(IpNet, IpAddr)>,
    /// Whether each interface answers through itself.
    #[serde(rename = "tune")]
    pub tune_routes: bool,
    /// The interface that the pod's default route goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<String>,
    /// The node's table of routes to pods.
    #[serde(rename = "table")]
    pub host_rule_table: u32,
    /// `rp_filter` in the pod; absent leaves it alone.
    #[serde(rename = "filter", default, skip_serializing_if = "Option::is_none")]
    pub rp_filter: Option<u8>,
    /// How many packets may wait for the interface; absent leaves it alone.
    #[serde(rename = "queue", default, skip_serializing_if = "Option::is_none")]
    pub tx_queue_len: Option<u32>,
    /// MTU of the wire between pod and node.
    #[serde(rename = "mtu")]
    pub veth_mtu: u32,
    /// Address of the pod's end of it.
    #[serde(rename = "address", default, skip_serializing_if = "Option::is_none")]
    pub veth_address: Option<IpAddr>,
}

/// Which arrangement a pod has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoordinatorMode {
    /// Underlay for `eth0` and beside a wire, else overlay.
    Auto,
    /// The pod has nothing of the cluster's own network, and gets a wire to the node.
    Underlay,
    /// The interface is beside that of the cluster's own network.
    Overlay,
    /// Nothing is done.
    Disabled,
}

/// The addresses that the daemon assigned to one attachment.
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

/// One assigned address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedIp {
    /// Address and prefix length.
    pub address: IpNet,
    /// The gateway of its subnet, if there is one.
    pub gateway: Option<IpAddr>,
}

/// One route to set up with an address.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignedRoute {
    /// Destination.
    pub dst: IpNet,
    /// Gateway; that of the address's family when absent.
    pub gw: Option<IpAddr>,
}
