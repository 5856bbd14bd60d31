//! Fabric (`ferroband.io/v1alpha1`): the state of the InfiniBand fabric and its subnet manager.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of the fabric and its subnet manager. A single object named `default`, written by the cluster daemon.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "Fabric",
    plural = "fabrics",
    category = "ferroband",
    status = "FabricStatus",
    doc = "State of the fabric and its subnet manager.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Manager", type_ = "string", json_path = ".status.manager"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Reachable')].status"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct FabricSpec {}

/// Observed state of the fabric and of its partition memberships.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FabricStatus {
    /// Subnet manager, for example `ufm https://10.0.0.1:443`.
    #[serde(default)]
    pub manager: String,
    /// Number of partition memberships that the subnet manager should have for this cluster.
    #[serde(default)]
    pub desired: i32,
    /// Number of memberships that the subnet manager has not yet added, changed or removed as desired.
    #[serde(default)]
    pub pending: i32,
    /// Total members that the subnet manager reports in all partitions, including members outside of this cluster.
    #[serde(default)]
    pub reported: i32,
    /// Members reported by the subnet manager whose GUID is in this cluster's range but assigned to no node, as
    /// `<pkey> <guid>`. At most 20 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<String>,
    /// Conditions: `Reachable`, `Isolated`, `Virtualized`, `Secured`, `NoWarnings`, `NoForeignMembers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Name of the Fabric that an object belongs to. P_Keys and GUIDs are unique within one fabric only.
///
/// Ferroband manages one fabric, and the API server refuses other names. When several fabrics are supported, existing
/// objects need no migration, because they name theirs already.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FabricName {
    /// The fabric of the cluster.
    #[default]
    Default,
}
