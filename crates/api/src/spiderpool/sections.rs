//! The plugin sections of SpiderMultusConfig.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SpiderIPPools from which the interfaces of a network get addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpPools {
    /// Names or glob patterns of IPv4 pools, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<String>,
    /// Names or glob patterns of IPv6 pools, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// Whether only pools in the parent interface's subnet are used.
    #[serde(default)]
    pub match_master_subnet: bool,
}

/// A network whose pods get an InfiniBand virtual function.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IbSriovSection {
    /// Device plugin resource of the virtual functions. Required.
    pub resource_name: Option<String>,
    /// P_Key, as an integer or as a string, decimal or hexadecimal.
    #[x_kube(validation = Rule::new(crate::PKEY_RULE).message(crate::PKEY_MESSAGE))]
    pub pkey: Option<IntOrString>,
    /// Link state of the function: `auto`, `enable` or `disable`.
    #[serde(default = "enable")]
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: String,
    /// Whether the RDMA device moves into the pod. If absent, the node's RDMA netns mode decides.
    pub rdma_isolation: Option<bool>,
    /// Whether the function's GUID is added to the partition in the subnet manager.
    #[serde(default)]
    pub enable_ib_kubernetes: bool,
    /// Deprecated name of `enableIbKubernetes`; takes precedence if set.
    pub ib_kubernetes_enabled: Option<bool>,
    /// MTU of the interface in bytes; 0 leaves it unchanged. Ferroband extension.
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// Pools that interfaces of this network get addresses from, unless the pod or its namespace names others.
    pub ippools: Option<IpPools>,
}

fn enable() -> String {
    "enable".into()
}

/// A network whose pods get an IPoIB child interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IpoibSection {
    /// Parent interface on the host, by name or altname. Required.
    pub master: Option<String>,
    /// MTU of the interface in bytes; 0 leaves it unchanged. Ferroband extension.
    #[schemars(range(min = 0, max = 65535))]
    pub mtu: Option<i32>,
    /// Pools that interfaces of this network get addresses from, unless the pod or its namespace names others.
    pub ippools: Option<IpPools>,
}

/// A network whose pods get an Ethernet virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovSection {
    /// Device plugin resource of the virtual functions. Required.
    pub resource_name: Option<String>,
    /// VLAN ID; absent or 0 means no VLAN.
    #[serde(rename = "vlanID")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// MTU of the interface in bytes; 0 leaves it unchanged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// Minimum transmit rate in Mb/s.
    #[schemars(range(min = 0))]
    pub min_tx_rate_mbps: Option<i64>,
    /// Maximum transmit rate in Mb/s.
    #[schemars(range(min = 0))]
    pub max_tx_rate_mbps: Option<i64>,
    /// Whether the RDMA device moves into the pod.
    #[serde(default)]
    pub rdma_isolation: bool,
    /// Deprecated name of `rdmaIsolation`; takes precedence if set.
    pub enable_rdma: Option<bool>,
    /// Pools that interfaces of this network get addresses from, unless the pod or its namespace names others.
    pub ippools: Option<IpPools>,
}

/// A network whose pods get a macvlan, ipvlan or VLAN interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanSection {
    /// Parent interface on the host. Several parents, which upstream bonds, are not supported: the network is
    /// rejected.
    pub master: Vec<String>,
    /// VLAN ID; absent or 0 means no VLAN. Not supported: the network is rejected if it is set.
    #[serde(rename = "vlanID")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i32>,
    /// How the VLAN of a `vlan` network is selected: `manual` (default) or `auto`.
    #[schemars(extend("enum" = ["manual", "auto"]))]
    pub vlan_mode: Option<String>,
    /// MTU of the interface in bytes; 0 leaves it unchanged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub mtu: i32,
    /// Settings of the bond. Not supported: the network is rejected.
    pub bond: Option<BondSection>,
    /// Device plugin resource of a shared RDMA device, which pods of this network request.
    pub rdma_resource_name: Option<String>,
    /// Pools that interfaces of this network get addresses from, unless the pod or its namespace names others.
    pub ippools: Option<IpPools>,
}

/// The bond that joins several parent interfaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BondSection {
    /// Name of the bond interface.
    pub name: String,
    /// Bonding mode of the kernel, 0 (`balance-rr`) to 6 (`balance-alb`).
    #[schemars(range(min = 0, max = 6))]
    pub mode: i32,
    /// Additional options of the kernel's bonding driver.
    pub options: Option<String>,
}

/// A network whose pods get a port of an Open vSwitch bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsSection {
    /// Name of the Open vSwitch bridge.
    pub bridge: String,
    /// VLAN ID of an access port.
    pub vlan: Option<i32>,
    /// VLANs of a trunk port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trunk: Vec<TrunkRange>,
    /// PCI address of the virtual function for hardware offload.
    #[serde(rename = "deviceID")]
    pub device_id: Option<String>,
    /// Pools that interfaces of this network get addresses from, unless the pod or its namespace names others.
    pub ippools: Option<IpPools>,
}

/// VLANs of a trunk port: the range `minID` to `maxID`, or the single `id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrunkRange {
    /// First VLAN ID of the range.
    #[serde(rename = "minID")]
    #[schemars(range(min = 0, max = 4094))]
    pub min_id: Option<i64>,
    /// Last VLAN ID of the range.
    #[serde(rename = "maxID")]
    #[schemars(range(min = 0, max = 4094))]
    pub max_id: Option<i64>,
    /// A single VLAN ID.
    #[schemars(range(min = 0, max = 4094))]
    pub id: Option<i64>,
}
