//! SubnetManagerHost (`ferroband.io/v1alpha1`): the opensm that Ferroband runs on one node.

use super::FabricName;
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
    /// Name of the Fabric; only `default` is supported.
    #[serde(default)]
    pub fabric: FabricName,
    /// Ferroband's section of the file, in opensm's partitions.conf syntax.
    #[serde(default)]
    #[schemars(length(max = 1_000_000))]
    pub members: String,
    /// Version of `members`, incremented with every change.
    #[serde(default)]
    pub serial: i64,
    /// Serial that opensm may read, because all hosts have written it.
    #[serde(default)]
    pub signal: i64,
    /// Port that opensm uses, from the node's label `node-restriction.kubernetes.io/ferroband-subnet-manager`: a device
    /// (`mlx5_0`), a port of a device (`mlx5_0.2`), or empty or `true` for the first port with a link.
    #[serde(default)]
    pub port: String,
    /// GUIDs of the ports on which Ferroband runs opensm, on all nodes. A master subnet manager on any other port is
    /// foreign.
    #[serde(default)]
    pub managed_ports: Vec<String>,
}

/// Observed state of opensm on the node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetManagerHostStatus {
    /// Serial of the `members` that the file on the node contains.
    #[serde(default)]
    pub written: i64,
    /// Serial for which opensm was signalled to read the file.
    #[serde(default)]
    pub signalled: i64,
    /// State of opensm: `running`, `yielding` to a foreign master subnet manager, or `stopped`.
    #[serde(default)]
    pub state: String,
    /// Whether this opensm programs the virtual ports of SR-IOV functions.
    #[serde(default)]
    pub virtualization: bool,
    /// GUID of the port that opensm uses, colon-separated; empty if no usable port was found.
    #[serde(default)]
    pub guid: String,
    /// GUID of the port of the master subnet manager, as this node sees it; empty if it is unknown or foreign.
    #[serde(default)]
    pub master: String,
    /// Whether the file makes every port a full member of the default partition.
    #[serde(default)]
    pub open_default_partition: bool,
    /// Current problem of opensm or its partitions file, for example a foreign master subnet manager; absent if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
