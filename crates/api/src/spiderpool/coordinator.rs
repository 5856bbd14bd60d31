//! SpiderCoordinator (`spiderpool.spidernet.io/v2beta1`): defaults for the routing of pods with several interfaces.

use super::PoolRoute;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Routing settings for pods with several interfaces. SpiderMultusConfig has the same settings for a single network.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderCoordinator",
    plural = "spidercoordinators",
    shortname = "scc",
    category = "spiderpool",
    status = "SpiderCoordinatorStatus",
    derive = "PartialEq",
    doc = "Default routing settings for pods with several interfaces."
)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorSpec {
    /// How the pod reaches its node and the cluster: `auto`, `underlay` (through a veth pair), `overlay` (through the
    /// default network) or `disabled`.
    #[serde(default = "auto")]
    #[schemars(extend("enum" = ["auto", "underlay", "overlay", "disabled"]))]
    pub mode: String,
    /// Source of the pod CIDRs: `auto`, `cluster`, `calico`, `cilium` or `none`.
    #[serde(default, rename = "podCIDRType", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "cluster", "calico", "cilium", "none"]))]
    pub pod_cidr_type: Option<String>,
    /// Additional subnets that pods reach through the host, in CIDR notation.
    #[serde(default, rename = "hijackCIDR", skip_serializing_if = "Vec::is_empty")]
    pub hijack_cidr: Vec<String>,
    /// Additional routes in the routing table of the network's interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<PoolRoute>,
    /// First two bytes of the MAC address of an Ethernet interface, `xx:yy`; the others are those of its IP address. Ignored
    /// on InfiniBand, where the port determines the address, and on ipvlan.
    #[serde(default, rename = "podMACPrefix", skip_serializing_if = "Option::is_none")]
    pub pod_mac_prefix: Option<String>,
    /// Whether replies leave through the interface on which the request arrived.
    #[serde(default = "yes")]
    pub tune_pod_routes: bool,
    /// Name of the interface in the pod that gets the pod's default route.
    #[serde(default, rename = "podDefaultRouteNIC", skip_serializing_if = "Option::is_none")]
    pub pod_default_route_nic: Option<String>,
    /// Number of the host's routing table for routes to pods.
    #[serde(default = "host_rule_table")]
    pub host_rule_table: i64,
    /// `rp_filter` in the pod: 0, 1 or 2. A negative value leaves it unchanged.
    #[serde(default, rename = "podRPFilter")]
    pub pod_rp_filter: i64,
    /// Length of the interface's transmit queue in packets; 0 leaves it unchanged.
    #[serde(default)]
    pub tx_queue_len: i64,
    /// IP address of the pod's end of the veth pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veth_link_address: Option<String>,
    /// MTU of the veth pair in bytes; 1500 if absent.
    #[serde(default, rename = "vethMTU", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub veth_mtu: Option<i64>,
    /// Deprecated upstream field; stored and ignored.
    #[serde(default, rename = "detectIPConflict", skip_serializing_if = "Option::is_none")]
    pub detect_ip_conflict: Option<bool>,
    /// Deprecated upstream field; stored and ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_gateway: Option<bool>,
}

fn auto() -> String {
    "auto".into()
}

fn yes() -> bool {
    true
}

fn host_rule_table() -> i64 {
    500
}

/// The CIDRs of the cluster, as detected by Spiderpool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderCoordinatorStatus {
    /// State of the detection: `Synced` or `NotReady`.
    pub phase: String,
    /// Why the phase is `NotReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// CIDRs of the default network's pods.
    #[serde(default, rename = "overlayPodCIDR", skip_serializing_if = "Vec::is_empty")]
    pub overlay_pod_cidr: Vec<String>,
    /// CIDRs of the cluster's Services.
    #[serde(default, rename = "serviceCIDR", skip_serializing_if = "Vec::is_empty")]
    pub service_cidr: Vec<String>,
}
