//! The fabric and its subnet manager.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What is known of the fabric and its subnet manager. There is one, called `default`, written by the cluster daemon.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "Fabric",
    plural = "fabrics",
    category = "ferroband",
    status = "FabricStatus",
    doc = "What is known of the fabric and its subnet manager.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Manager", type_ = "string", json_path = ".status.manager"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".status.wanted"),
    printcolumn(name = "Open", type_ = "integer", json_path = ".status.open"),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Reachable')].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct FabricSpec {}

/// What is known of it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FabricStatus {
    /// The subnet manager: `ufm https://10.0.0.1:443`.
    #[serde(default)]
    pub manager: String,
    /// How many memberships are wanted.
    #[serde(default)]
    pub wanted: i32,
    /// How many of them, and of those to be ended, the manager does not have as wanted.
    #[serde(default)]
    pub open: i32,
    /// How many members it lists, anybody's.
    #[serde(default)]
    pub listed: i32,
    /// GUIDs in our range that the manager lists but that belong to nobody here, as `<pkey> <guid>`; a few of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<String>,
    /// Conditions: `Reachable`, `Isolated`, `Virtualized`, `Secured`, `Orphans`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
