//! Which virtual functions a node shall have.

use super::PolicyBridge;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which virtual functions the selected devices of the selected nodes shall have.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkNodePolicy",
    plural = "sriovnetworknodepolicies",
    namespaced,
    status = "NoStatus",
    derive = "PartialEq",
    doc = "Which virtual functions the selected devices of the selected nodes shall have."
)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodePolicySpec {
    /// The resource the functions are offered under, without prefix.
    pub resource_name: String,
    /// Labels that a node must have, all of them.
    pub node_selector: BTreeMap<String, String>,
    /// Which devices; at least one field, all that are given must match.
    pub nic_selector: NicSelector,
    /// How many functions.
    #[schemars(range(min = 0))]
    pub num_vfs: i64,
    /// The lower wins where policies disagree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub priority: Option<i64>,
    /// MTU of the functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub mtu: Option<i64>,
    /// The driver: `netdevice` or `vfio-pci`; `ib` and `infiniBand` mean `netdevice` with `linkType: ib`.
    #[serde(default = "netdevice")]
    #[schemars(extend("enum" = ["netdevice", "vfio-pci", "ib", "infiniBand"]))]
    pub device_type: String,
    /// Whether their RDMA devices are given out with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// Whether `/dev/vhost-net` is given out with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// The link layer: `eth` or `ib`, in either case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["eth", "ETH", "ib", "IB"]))]
    pub link_type: Option<String>,
    /// `legacy` or `switchdev`.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["legacy", "switchdev"]))]
    pub e_switch_mode: Option<String>,
    /// `virtio` or `vhost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["virtio", "vhost"]))]
    pub vdpa_type: Option<String>,
    /// Whether the kubelet is not told their NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_topology: Option<bool>,
    /// Whether somebody else makes the functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// A software bridge for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<PolicyBridge>,
}

fn netdevice() -> String {
    "netdevice".into()
}

/// Which devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NicSelector {
    /// PCI vendor, four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// PCI device of the physical function, four hexadecimal digits.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// PCI addresses of physical functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_devices: Vec<String>,
    /// Names or altnames of physical functions, with `#a-b` only functions a to b.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pf_names: Vec<String>,
    /// A network of the platform, for virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
}

/// A status of which nothing is fixed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoStatus {}
