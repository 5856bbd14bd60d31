//! The sections of SpiderMultusConfig, one for each plugin.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pools of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPools {
    /// IPv4 pools, the first preferred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<String>,
    /// IPv6 pools, the first preferred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// Whether only pools of the parent's subnet are used.
    #[serde(default)]
    pub match_master_subnet: bool,
}

/// An InfiniBand virtual function.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IbSriovSection {
    /// The resource whose devices are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The partition, as a number or as text, decimal or hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(crate::PKEY_RULE).message(crate::PKEY_MESSAGE))]
    pub pkey: Option<IntOrString>,
    /// Link state of the function: `auto`, `enable` or `disable`.
    #[serde(default = "enable")]
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: String,
    /// Whether the RDMA device moves into the pod. As the node's RDMA mode is, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_isolation: Option<bool>,
    /// Whether the function's GUID is made a member of the partition at the subnet manager.
    #[serde(default)]
    pub enable_ib_kubernetes: bool,
    /// The same under its older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ib_kubernetes_enabled: Option<bool>,
    /// The MTU; 0 leaves it alone. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

fn enable() -> String {
    "enable".into()
}

/// An IPoIB child interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpoibSection {
    /// The parent, by name or altname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// The MTU; 0 leaves it alone. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// An Ethernet virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovSection {
    /// The resource whose devices are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The VLAN.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// The MTU; 0 leaves it alone.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// Least rate in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_tx_rate_mbps: Option<i64>,
    /// Greatest rate in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_tx_rate_mbps: Option<i64>,
    /// Whether the RDMA device moves into the pod.
    #[serde(default)]
    pub rdma_isolation: bool,
    /// The same under its older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_rdma: Option<bool>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// A macvlan, ipvlan or VLAN interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanSection {
    /// The parents; several are bonded.
    pub master: Vec<String>,
    /// The VLAN.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// How the VLAN of a `vlan` network is chosen: `manual`, also when absent, or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["manual", "auto"]))]
    pub vlan_mode: Option<String>,
    /// The MTU; 0 leaves it alone.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// The bond of several parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondSection>,
    /// The resource of a shared RDMA device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_resource_name: Option<String>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// A bond of several parents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BondSection {
    /// Its interface.
    pub name: String,
    /// The bonding mode.
    #[schemars(range(min = 0, max = 6))]
    pub mode: i32,
    /// Further options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}

/// A port of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsSection {
    /// The bridge.
    pub bridge: String,
    /// The VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i32>,
    /// VLANs of a trunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trunk: Vec<TrunkRange>,
    /// The device offloaded to.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// VLANs of a trunk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrunkRange {
    /// The first.
    #[serde(default, rename = "minID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub min_id: Option<i64>,
    /// The last.
    #[serde(default, rename = "maxID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub max_id: Option<i64>,
    /// A single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub id: Option<i64>,
}
