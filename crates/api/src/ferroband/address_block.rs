//! Sixteen addresses in one object.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sixteen neighbouring addresses of one space and who has them. An address is assigned when it stands here.
///
/// The name is `<space>-<first address>`, so whoever wants one of these addresses writes this object, and the
/// API server lets one of two writers through.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "AddressBlock",
    plural = "addressblocks",
    shortname = "block",
    category = "ferroband",
    doc = "Sixteen neighbouring addresses of one space and who has them.",
    derive = "PartialEq",
    printcolumn(name = "Space", type_ = "string", json_path = ".spec.space"),
    printcolumn(name = "First", type_ = "string", json_path = ".spec.first"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Used", type_ = "integer", json_path = ".spec.used"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".spec.free"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.space == oldSelf.space && self.first == oldSelf.first").message("space and first never change: they are the object's name"),
    validation = Rule::new("self.used == size(self.entries) && self.used + self.free == 16").message("used is the number of entries, free the rest of 16")
)]
pub struct AddressBlockSpec {
    /// Where the addresses are unique: `default`, `network/<name>` or `pool/<subnet>`.
    #[schemars(length(min = 1, max = 512))]
    pub space: String,
    /// The first of the sixteen addresses, used or not.
    #[schemars(length(min = 2, max = 45))]
    #[x_kube(validation = Rule::new("isIP(self)").message("first must be an IP address"))]
    pub first: String,
    /// The node that took the granule ahead of need. Other nodes may still use its free addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// The assigned addresses by their offset from the first, `0` to `15`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = Rule::new("self.all(offset, offset.matches('^([0-9]|1[0-5])$'))").message("offsets are 0 to 15"))]
    pub entries: BTreeMap<String, AddressBlockEntry>,
    /// How many addresses are assigned.
    #[schemars(range(min = 0, max = 16))]
    pub used: i32,
    /// How many are not, whether a pool offers them or not.
    #[schemars(range(min = 0, max = 16))]
    pub free: i32,
}

/// One assigned address.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressBlockEntry {
    /// The pod, `<namespace>/<name>`.
    #[schemars(length(max = 320))]
    pub pod: String,
    /// The pod's UID.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Whether the address stays with the pod's name over re-creation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// The interface in the pod.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// Which of the interface's addresses of this family, where it has several.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 255))]
    pub ordinal: i32,
    /// The sandbox that has it; empty while it waits for the next pod of that name.
    #[schemars(length(max = 253))]
    pub container: String,
    /// The node the sandbox is, or was, on.
    #[schemars(length(max = 253))]
    pub node: String,
    /// The pool it was given out from: a range, or the name of a SpiderIPPool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub pool: String,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}
