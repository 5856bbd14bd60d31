//! The plugin sections of SpiderMultusConfig.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// IP pools of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPools {
    /// IPv4 pools, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<String>,
    /// IPv6 pools, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// Whether only pools in the parent interface's subnet are used.
    #[serde(default)]
    pub match_master_subnet: bool,
}

/// An InfiniBand virtual function.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IbSriovSection {
    /// Device plugin resource of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// P_Key, as an integer or as a string, decimal or hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(crate::PKEY_RULE).message(crate::PKEY_MESSAGE))]
    pub pkey: Option<IntOrString>,
    /// Link state of the function: `auto`, `enable` or `disable`.
    #[serde(default = "enable")]
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: String,
    /// Whether the RDMA device moves into the pod. If absent, the node's RDMA netns mode decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_isolation: Option<bool>,
    /// Whether the function's GUID is added to the partition in the subnet manager.
    #[serde(default)]
    pub enable_ib_kubernetes: bool,
    /// Older name of the same field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ib_kubernetes_enabled: Option<bool>,
    /// MTU; 0 leaves it unchanged. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// IP pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

fn enable() -> String {
    "enable".into()
}

/// An IPoIB child interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpoibSection {
    /// Parent interface, by name or altname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// MTU; 0 leaves it unchanged. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// IP pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// An Ethernet virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovSection {
    /// Device plugin resource of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// VLAN ID.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// MTU; 0 leaves it unchanged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// Minimum transmit rate in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_tx_rate_mbps: Option<i64>,
    /// Maximum transmit rate in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_tx_rate_mbps: Option<i64>,
    /// Whether the RDMA device moves into the pod.
    #[serde(default)]
    pub rdma_isolation: bool,
    /// Older name of the same field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_rdma: Option<bool>,
    /// IP pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// A macvlan, ipvlan or VLAN interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanSection {
    /// Parent interfaces; several are bonded.
    pub master: Vec<String>,
    /// VLAN ID.
    #[serde(default, rename = "vlanID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// How the VLAN of a `vlan` network is selected: `manual` (default) or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["manual", "auto"]))]
    pub vlan_mode: Option<String>,
    /// MTU; 0 leaves it unchanged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// Bond of several parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<BondSection>,
    /// Resource of a shared RDMA device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_resource_name: Option<String>,
    /// IP pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// A bond of several parents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BondSection {
    /// Name of the bond interface.
    pub name: String,
    /// The bonding mode.
    #[schemars(range(min = 0, max = 6))]
    pub mode: i32,
    /// Additional bonding options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
}

/// A port of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsSection {
    /// The bridge.
    pub bridge: String,
    /// VLAN ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i32>,
    /// VLANs of a trunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trunk: Vec<TrunkRange>,
    /// Device for hardware offload.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// IP pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ippools: Option<IpPools>,
}

/// VLANs of a trunk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrunkRange {
    /// First VLAN ID.
    #[serde(default, rename = "minID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub min_id: Option<i64>,
    /// Last VLAN ID.
    #[serde(default, rename = "maxID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub max_id: Option<i64>,
    /// A single VLAN ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub id: Option<i64>,
}
