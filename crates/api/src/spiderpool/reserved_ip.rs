//! SpiderReservedIP (`spiderpool.spidernet.io/v2beta1`): addresses that Ferroband must not assign.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [4, 6]))]
    pub ip_version: Option<i64>,
    /// Reserved addresses, each a single address or a range `A-B`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
}
