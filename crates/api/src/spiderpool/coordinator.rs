//! The kind SpiderCoordinator.

use super::PoolRoute;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Routing of pods with several interfaces. Also a section of SpiderMultusConfig, for one network.
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
    /// `auto`, `underlay`, `overlay` or `disabled`.
    #[serde(default = "auto")]
    #[schemars(extend("enum" = ["auto", "underlay", "overlay", "disabled"]))]
    pub mode: String,
    /// Source of the pod CIDRs: `auto`, `cluster`, `calico`, `cilium` or `none`.
    #[serde(default, rename = "podCIDRType", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "cluster", "calico", "cilium", "none"]))]
    pub pod_cidr_type: Option<String>,
    /// Additional subnets that are reached through the host.
    #[serde(default, rename = "hijackCIDR", skip_serializing_if = "Vec::is_empty")]
    pub hijack_cidr: Vec<String>,
    /// Routes in the interface's own routing table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_routes: Vec<PoolRoute>,
    /// First two bytes of the Ethernet address, `xx:yy`. Ignored: an InfiniBand address is determined by its port.
    #[serde(default, rename = "podMACPrefix", skip_serializing_if = "Option::is_none")]
    pub pod_mac_prefix: Option<String>,
    /// Whether replies leave through the interface on which the request arrived.
    #[serde(default = "yes")]
    pub tune_pod_routes: bool,
    /// Interface that gets the pod's default route.
    #[serde(default, rename = "podDefaultRouteNIC", skip_serializing_if = "Option::is_none")]
    pub pod_default_route_nic: Option<String>,
    /// Host routing table for routes to pods.
    #[serde(default = "host_rule_table")]
    pub host_rule_table: i64,
    /// `rp_filter` in the pod; a negative value leaves it unchanged.
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

/// Detected cluster networks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderCoordinatorStatus {
    /// `Synced` or `NotReady`.
    pub phase: String,
    /// Reason for `NotReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Pod CIDRs.
    #[serde(default, rename = "overlayPodCIDR", skip_serializing_if = "Vec::is_empty")]
    pub overlay_pod_cidr: Vec<String>,
    /// Service CIDRs.
    #[serde(default, rename = "serviceCIDR", skip_serializing_if = "Vec::is_empty")]
    pub service_cidr: Vec<String>,
}
