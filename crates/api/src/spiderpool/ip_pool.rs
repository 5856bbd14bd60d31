//! SpiderIPPool and SpiderReservedIP (`spiderpool.spidernet.io/v2beta1`): addresses of one subnet with the pods that may
//! use them, and addresses that Ferroband must not assign.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of IP addresses and the pods that may use it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderIPPool",
    plural = "spiderippools",
    shortname = "sp",
    category = "spiderpool",
    status = "SpiderIPPoolStatus",
    derive = "PartialEq",
    doc = "A pool of IP addresses and the pods that may use it.",
    printcolumn(name = "VERSION", type_ = "string", json_path = ".spec.ipVersion"),
    printcolumn(name = "SUBNET", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "ALLOCATED-IP-COUNT", type_ = "integer", json_path = ".status.allocatedIPCount"),
    printcolumn(name = "TOTAL-IP-COUNT", type_ = "integer", json_path = ".status.totalIPCount"),
    printcolumn(name = "DEFAULT", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(name = "DISABLE", type_ = "boolean", json_path = ".spec.disable", priority = 10),
    printcolumn(name = "NodeName", type_ = "string", json_path = ".spec.nodeName", priority = 10),
    printcolumn(name = "MultusName", type_ = "string", json_path = ".spec.multusName", priority = 10),
    printcolumn(
        name = "APP-NAMESPACE",
        type_ = "string",
        json_path = ".spec.podAffinity.matchLabels['ipam\\.spidernet\\.io/app\\-namespace']",
        priority = 10
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.subnet == oldSelf.subnet")
        .message("subnet is immutable; create another pool"),
    validation = Rule::new("!has(oldSelf.ipVersion) || !has(self.ipVersion) || self.ipVersion == oldSelf.ipVersion")
        .message("ipVersion is immutable; create another pool")
)]
pub struct SpiderIPPoolSpec {
    /// Address family, 4 or 6; derived from the subnet if absent.
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// Subnet in CIDR notation; host bits are ignored.
    pub subnet: String,
    /// Addresses of the pool, each a single address or a range `A-B`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Addresses of `ips` that are never assigned, each a single address or a range `A-B`.
    #[serde(default, rename = "excludeIPs", skip_serializing_if = "Vec::is_empty")]
    pub exclude_ips: Vec<String>,
    /// Gateway of the default route; must be in the subnet. Without it, pods get no default route from this pool.
    pub gateway: Option<String>,
    /// Routes that an interface gets with an address of this pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PoolRoute>,
    /// Pods that may use the pool, by label.
    pub pod_affinity: Option<LabelSelector>,
    /// Namespaces that may use the pool, by label.
    pub namespace_affinity: Option<LabelSelector>,
    /// Namespaces that may use the pool, by name; overrides `namespaceAffinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_name: Vec<String>,
    /// Nodes that may use the pool, by label.
    pub node_affinity: Option<LabelSelector>,
    /// Nodes that may use the pool, by name; overrides `nodeAffinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_name: Vec<String>,
    /// Networks that may use the pool, `<namespace>/<name>` or `<name>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multus_name: Vec<String>,
    /// Whether the pool serves interfaces for which no annotation or network names a pool.
    #[serde(default)]
    pub default: bool,
    /// Whether new assignments are disabled; existing ones stay.
    #[serde(default)]
    pub disable: bool,
    /// Deprecated upstream field (VLAN); stored and ignored.
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: Option<i64>,
}

/// A route of a pool or of a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRoute {
    /// Destination in CIDR notation.
    pub dst: String,
    /// Gateway address; for a pool it must be in the pool's subnet.
    pub gw: String,
}

/// The assigned addresses of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpiderIPPoolStatus {
    /// Assigned addresses as JSON: `{"<ip>":{"pod":"<namespace>/<name>","podUid":"<uid>"}}`.
    #[serde(default, rename = "allocatedIPs", skip_serializing_if = "Option::is_none")]
    pub allocated_ips: Option<String>,
    /// Number of assigned addresses.
    #[serde(default, rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub allocated_ip_count: Option<i64>,
    /// Number of addresses in the pool, assigned or not, without `excludeIPs`.
    #[serde(default, rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub total_ip_count: Option<i64>,
    /// Whether the pool is usable, with the reason if not. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Addresses that are never assigned from any pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderReservedIP",
    plural = "spiderreservedips",
    shortname = "sr",
    category = "spiderpool",
    derive = "PartialEq",
    doc = "Addresses that are never assigned from any pool.",
    printcolumn(name = "VERSION", type_ = "string", json_path = ".spec.ipVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct SpiderReservedIPSpec {
    /// Address family, 4 or 6; derived from the first address if absent.
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// Reserved addresses, each a single address or a range `A-B`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
}
