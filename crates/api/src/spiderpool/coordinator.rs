//! How a pod with several interfaces routes.

use super::PoolRoute;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a pod with several interfaces routes. Also a section of SpiderMultusConfig, for one network.
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
    doc = "How pods with several interfaces route, where their network does not say."
)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorSpec {
    /// `auto`, `underlay`, `overlay` or `disabled`.
    #[serde(default = "auto")]
    #[schemars(extend("enum" = ["auto", "underlay", "overlay", "disabled"]))]
    pub mode: String,
    /// Where the pods' subnets are found: `auto`, `cluster`, `calico`, `cilium` or `none`.
    #[serde(default, rename = "podCIDRType", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "cluster", "calico", "cilium", "none"]))]
    pub pod_cidr_type: Option<String>,
    /// Further subnets reached through the host.
    #[serde(default, rename = "hijackCIDR", skip_serializing_if = "Vec::is_empty")]
    pub hijack_cidr: Vec<String>,
    /// Routes of the interface's own table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<PoolRoute>,
    /// First two bytes of an Ethernet address, `xx:yy`. Without effect: an InfiniBand address is its port's own.
    #[serde(default, rename = "podMACPrefix", skip_serializing_if = "Option::is_none")]
    pub pod_mac_prefix: Option<String>,
    /// Whether each interface answers through itself.
    #[serde(default = "yes")]
    pub tune_pod_routes: bool,
    /// The interface with the default route.
    #[serde(default, rename = "podDefaultRouteNIC", skip_serializing_if = "Option::is_none")]
    pub pod_default_route_nic: Option<String>,
    /// The host's table for routes to pods.
    #[serde(default = "host_rule_table")]
    pub host_rule_table: i64,
    /// `rp_filter` in the pod; negative leaves it alone.
    #[serde(default, rename = "podRPFilter")]
    pub pod_rp_filter: i64,
    /// Length of the interface's transmit queue.
    #[serde(default)]
    pub tx_queue_len: i64,
    /// Address of the pod's veth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub veth_link_address: Option<String>,
    /// MTU of the pod's veth.
    #[serde(default, rename = "vethMTU", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub veth_mtu: Option<i64>,
    /// A field of older releases; kept, without effect.
    #[serde(default, rename = "detectIPConflict", skip_serializing_if = "Option::is_none")]
    pub detect_ip_conflict: Option<bool>,
    /// A field of older releases; kept, without effect.
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

/// What was found out about the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderCoordinatorStatus {
    /// `Synced` or `NotReady`.
    pub phase: String,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Subnets of the pods.
    #[serde(default, rename = "overlayPodCIDR", skip_serializing_if = "Vec::is_empty")]
    pub overlay_pod_cidr: Vec<String>,
    /// Subnets of the services.
    #[serde(default, rename = "serviceCIDR", skip_serializing_if = "Vec::is_empty")]
    pub service_cidr: Vec<String>,
}
