//! A pool of addresses.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of addresses and who may use it.
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
    doc = "A pool of addresses and who may use it.",
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
        .message("a pool keeps its subnet: make another one"),
    validation = Rule::new("!has(oldSelf.ipVersion) || (has(self.ipVersion) && self.ipVersion == oldSelf.ipVersion)")
        .message("a pool keeps its ipVersion: make another one")
)]
pub struct SpiderIPPoolSpec {
    /// The address family, 4 or 6; that of the subnet when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// The subnet; host bits are ignored.
    pub subnet: String,
    /// The addresses, each one or a range `A-B`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Addresses among them that are not given out.
    #[serde(default, rename = "excludeIPs", skip_serializing_if = "Vec::is_empty")]
    pub exclude_ips: Vec<String>,
    /// The gateway of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Routes that go with every address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PoolRoute>,
    /// Which pods may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<LabelSelector>,
    /// In which namespaces it may be used, by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_affinity: Option<LabelSelector>,
    /// In which namespaces it may be used, by name; goes before `namespaceAffinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace_name: Vec<String>,
    /// On which nodes it may be used, by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<LabelSelector>,
    /// On which nodes it may be used, by name; goes before `nodeAffinity`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_name: Vec<String>,
    /// For which networks it may be used, `<namespace>/<name>` or `<name>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multus_name: Vec<String>,
    /// Whether it serves interfaces for which nothing else is said.
    #[serde(default)]
    pub default: bool,
    /// Whether no more addresses are given out; those assigned stay.
    #[serde(default)]
    pub disable: bool,
    /// The VLAN, a field of older releases; kept, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: Option<i64>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRoute {
    /// Destination.
    pub dst: String,
    /// Gateway.
    pub gw: String,
}

/// How far a pool is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpiderIPPoolStatus {
    /// The assigned addresses, as JSON text: `{"<ip>":{"pod":"<namespace>/<name>","podUid":"<uid>"}}`.
    #[serde(default, rename = "allocatedIPs", skip_serializing_if = "Option::is_none")]
    pub allocated_ips: Option<String>,
    /// How many are assigned.
    #[serde(default, rename = "allocatedIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub allocated_ip_count: Option<i64>,
    /// How many there are.
    #[serde(default, rename = "totalIPCount", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub total_ip_count: Option<i64>,
    /// Whether it can be used, and if not, why. Ours; Spiderpool has no such field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
