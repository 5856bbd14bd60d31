//! A node that runs opensm.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The partitions file of the opensm on one node: written there first, read by opensm only when all nodes have it.
///
/// The name is the node's. The cluster daemon writes what shall be, the node's daemon what is.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "SubnetManagerHost",
    plural = "subnetmanagerhosts",
    category = "ferroband",
    status = "SubnetManagerHostStatus",
    doc = "The partitions file of the opensm on one node.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Serial", type_ = "integer", json_path = ".spec.serial"),
    printcolumn(name = "Written", type_ = "integer", json_path = ".status.written"),
    printcolumn(name = "Read", type_ = "integer", json_path = ".status.signalled"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.problem", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct SubnetManagerHostSpec {
    /// Our part of the file: partitions as opensm writes them.
    #[serde(default)]
    #[schemars(length(max = 1_000_000))]
    pub members: String,
    /// Raised with every change of it.
    #[serde(default)]
    pub serial: i64,
    /// The serial that opensm may read: all hosts have written it.
    #[serde(default)]
    pub signal: i64,
    /// Which port: the value of the node's label `ferroband.io/subnet-manager`. A device (`mlx5_0`), a port of one
    /// (`mlx5_0.2`), or empty or `true` for the first with a link.
    #[serde(default)]
    pub port: String,
    /// The ports of all nodes that run one: a master on another port is a stranger's.
    #[serde(default)]
    pub ours: Vec<String>,
}

/// How far the node is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetManagerHostStatus {
    /// The serial that stands in the file.
    #[serde(default)]
    pub written: i64,
    /// The serial that opensm was told to read.
    #[serde(default)]
    pub signalled: i64,
    /// `running`, `yielding` to another master, or `stopped`.
    #[serde(default)]
    pub state: String,
    /// Whether this opensm programs the ports of virtual functions.
    #[serde(default)]
    pub virtualization: bool,
    /// The GUID of the port that it is to run on.
    #[serde(default)]
    pub guid: String,
    /// Whether the file lets every port into the default partition as a full member.
    #[serde(default)]
    pub open: bool,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
