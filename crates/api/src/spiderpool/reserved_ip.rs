//! Addresses that no pool gives out.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Addresses that no pool gives out.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "spiderpool.spidernet.io",
    version = "v2beta1",
    kind = "SpiderReservedIP",
    plural = "spiderreservedips",
    shortname = "sr",
    category = "spiderpool",
    derive = "PartialEq",
    doc = "Addresses that no pool gives out.",
    printcolumn(name = "VERSION", type_ = "string", json_path = ".spec.ipVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct SpiderReservedIPSpec {
    /// The address family, 4 or 6; that of the first address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// The addresses, each one or a range `A-B`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
}
