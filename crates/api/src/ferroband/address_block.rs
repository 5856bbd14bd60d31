//! AddressBlock (`ferroband.io/v1alpha1`): sixteen addresses and the pods that they are assigned to.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A block of 16 consecutive addresses of one IP space and their assignments. An address is assigned once its entry is
/// stored here.
///
/// The name is `<space>-<first address>`. Every assignment from the block updates this object, so of two concurrent
/// writers of one address the API server accepts only one. Labels name the IP space and the nodes that have entries.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "AddressBlock",
    plural = "addressblocks",
    shortname = "block",
    category = "ferroband",
    doc = "A block of 16 consecutive addresses of one IP space and their assignments.",
    derive = "PartialEq",
    printcolumn(name = "Space", type_ = "string", json_path = ".spec.space"),
    printcolumn(name = "First", type_ = "string", json_path = ".spec.first"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.space == oldSelf.space && self.first == oldSelf.first").message("space and first are immutable: the object's name is derived from them")
)]
pub struct AddressBlockSpec {
    /// IP space in which the addresses are unique: `default`, `network/<name>` or `pool/<subnet>`.
    #[schemars(length(min = 1, max = 512))]
    pub space: String,
    /// First address of the block, whether assigned or not.
    #[schemars(length(min = 2, max = 45))]
    #[x_kube(validation = Rule::new("isIP(self)").message("first must be an IP address"))]
    pub first: String,
    /// Node that reserved the block in advance. Other nodes may still use free addresses of the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node: Option<String>,
    /// Assigned addresses by their offset from `first`, `0` to `15`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = Rule::new("self.all(offset, offset.matches('^([0-9]|1[0-5])$'))").message("offsets must be 0 to 15"))]
    pub entries: BTreeMap<String, AddressBlockEntry>,
}

/// One assigned address.
// Server-side apply compares an entry as a whole, so that two nodes that add the same offset conflict, whatever fields
// they set. The map of entries is granular, so that entries at different offsets do not.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct AddressBlockEntry {
    /// Pod that owns the address, `<namespace>/<name>`.
    #[schemars(length(max = 320))]
    pub pod: String,
    /// UID of the pod. It distinguishes the pod from a later pod of the same name.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Whether the address is kept for the next pod of the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// Interface name in the pod.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// Index among the interface's addresses of this family, if it has several.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 255))]
    pub ordinal: i32,
    /// ID of the sandbox that uses the address; empty while it is kept for the next pod of that name.
    #[schemars(length(max = 253))]
    pub container: String,
    /// Node of the current or last sandbox.
    #[schemars(length(max = 253))]
    pub node: String,
    /// Pool that the address was assigned from: a range, or the name of a SpiderIPPool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub pool: String,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}
