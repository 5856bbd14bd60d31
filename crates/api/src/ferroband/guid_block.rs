//! GuidBlock (`ferroband.io/v1alpha1`): 256 GUIDs and the virtual functions that have claimed them.

use super::FabricName;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A block of 256 consecutive GUIDs and their claims. A GUID is claimed while its entry is stored here. A claim never
/// moves to another owner: its owner releases it, or it is removed with its owner's node.
///
/// The name is the first GUID as 16 hexadecimal digits, so of two concurrent writers the API server accepts only one.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "GuidBlock",
    plural = "guidblocks",
    category = "ferroband",
    doc = "A block of 256 consecutive GUIDs and their claims.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GuidBlockSpec {
    /// Name of the Fabric; only `default` is supported.
    #[serde(default)]
    pub fabric: FabricName,
    /// Node that reserved the block in advance; empty if the block is not reserved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub node: String,
    /// Claims by their offset from the first GUID, `0` to `255`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 256))]
    pub claims: BTreeMap<String, GuidClaim>,
}

/// Owner of a GUID.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuidClaim {
    /// Node of the virtual function. Empty if the GUID is used on the fabric outside of this cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub node: String,
    /// PCI address of the virtual function. If the GUID is used outside of this cluster, where it was observed.
    #[schemars(length(max = 128))]
    pub device: String,
}
