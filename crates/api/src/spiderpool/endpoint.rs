//! SpiderEndpoint (`spiderpool.spidernet.io/v2beta1`): the addresses that one pod has from SpiderIPPools.

use super::PoolRoute;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Empty: this kind has no `spec`, and its status is not a subresource.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderEndpoint",
    plural = "spiderendpoints",
    shortname = "se",
    category = "spiderpool",
    namespaced,
    no_spec,
    status = "SpiderEndpointStatus",
    derive = "PartialEq",
    doc = "The addresses of one pod; the object has the pod's name.",
    printcolumn(name = "INTERFACE", type_ = "string", json_path = ".status.current.ips[0].interface"),
    printcolumn(name = "IPV4POOL", type_ = "string", json_path = ".status.current.ips[0].ipv4Pool"),
    printcolumn(name = "IPV4", type_ = "string", json_path = ".status.current.ips[0].ipv4"),
    printcolumn(name = "IPV6POOL", type_ = "string", json_path = ".status.current.ips[0].ipv6Pool"),
    printcolumn(name = "IPV6", type_ = "string", json_path = ".status.current.ips[0].ipv6"),
    printcolumn(name = "NODE", type_ = "string", json_path = ".status.current.node")
)]
pub struct SpiderEndpointFields {}

/// The addresses of one pod, and the controller that the pod belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderEndpointStatus {
    /// Node and addresses of the current pod of this name.
    pub current: EndpointDetail,
    /// Kind of the pod's controller, for example `StatefulSet`.
    pub owner_controller_type: String,
    /// Name of the pod's controller.
    pub owner_controller_name: String,
}

/// Node and addresses of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointDetail {
    /// UID of the pod that has these addresses.
    pub uid: String,
    /// Name of the pod's node.
    pub node: String,
    /// The pod's interfaces with addresses from pools, one element each.
    pub ips: Vec<EndpointIp>,
}

/// The addresses of one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointIp {
    /// Interface name in the pod.
    pub interface: String,
    /// IPv4 address with prefix length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// IPv6 address with prefix length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// Name of the SpiderIPPool of the IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<String>,
    /// Name of the SpiderIPPool of the IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_pool: Option<String>,
    /// VLAN ID; 0 means no VLAN.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: i64,
    /// Gateway of the IPv4 pool; absent if the pool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// Gateway of the IPv6 pool; absent if the pool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// Whether the interface gets no default route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_gateway: Option<bool>,
    /// Routes of the pools that the interface has addresses from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PoolRoute>,
    /// Link-layer address of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}
