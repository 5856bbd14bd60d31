//! 256 GUIDs in one object.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// 256 neighbouring GUIDs and who has them. A GUID is claimed while it stands here, and never moves to another owner: its
/// owner gives it back, or its owner's node is gone.
///
/// The name is the first GUID in sixteen digits, so the API server decides between two who want the same one.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "GuidBlock",
    plural = "guidblocks",
    category = "ferroband",
    doc = "256 neighbouring GUIDs and who has them.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.node"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GuidBlockSpec {
    /// The node that took it ahead of need.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub node: String,
    /// Claims by their distance from the first GUID, `0` to `255`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 256))]
    pub claims: BTreeMap<String, GuidClaim>,
}

/// Who has a GUID.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuidClaim {
    /// The node; empty for a GUID that is somebody else's on the fabric.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub node: String,
    /// The function by PCI address; for what is not ours, where it was seen.
    #[schemars(length(max = 128))]
    pub device: String,
}
