//! The kind SubnetManagerHost.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The partitions file of opensm on one node. All hosts write a new version before any opensm reads it.
///
/// The name is the node's name. The cluster daemon writes the spec, the node daemon the status.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "SubnetManagerHost",
    plural = "subnetmanagerhosts",
    category = "ferroband",
    status = "SubnetManagerHostStatus",
    doc = "The partitions file of opensm on one node.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Serial", type_ = "integer", json_path = ".spec.serial"),
    printcolumn(name = "Written", type_ = "integer", json_path = ".status.written"),
    printcolumn(name = "Signalled", type_ = "integer", json_path = ".status.signalled"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.problem", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct SubnetManagerHostSpec {
    /// Ferroband's section of the file, in opensm's partitions.conf syntax.
    #[serde(default)]
    #[schemars(length(max = 1_000_000))]
    pub members: String,
    /// Incremented with every change of `members`.
    #[serde(default)]
    pub serial: i64,
    /// Serial that opensm may read, because all hosts have written it.
    #[serde(default)]
    pub signal: i64,
    /// Port that opensm uses, from the node's label `ferroband.io/subnet-manager`: a device (`mlx5_0`), a port of a
    /// device (`mlx5_0.2`), or empty or `true` for the first port with a link.
    #[serde(default)]
    pub port: String,
    /// Port GUIDs of all nodes that run opensm. A master subnet manager on any other port is foreign.
    #[serde(default)]
    pub ours: Vec<String>,
}

/// State of opensm on the node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetManagerHostStatus {
    /// Serial written to the file.
    #[serde(default)]
    pub written: i64,
    /// Serial for which opensm was signalled to read the file.
    #[serde(default)]
    pub signalled: i64,
    /// `running`, `yielding` to another master, or `stopped`.
    #[serde(default)]
    pub state: String,
    /// Whether this opensm programs the virtual ports of SR-IOV functions.
    #[serde(default)]
    pub virtualization: bool,
    /// GUID of the port that opensm uses.
    #[serde(default)]
    pub guid: String,
    /// Whether the file makes every port a full member of the default partition.
    #[serde(default)]
    pub open: bool,
    /// Current problem, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
