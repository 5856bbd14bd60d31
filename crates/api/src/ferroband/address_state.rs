//! AddressState (`ferroband.io/v1alpha1`): what every node must know before it assigns an address.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every node must know before it assigns an address. A single object named `cluster`. Its status is written by the
/// cluster daemon. Every node watches it, so it is small and changes rarely.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "AddressState",
    plural = "addressstates",
    category = "ferroband",
    status = "AddressStateStatus",
    doc = "What every node must know before it assigns an address.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Whereabouts", type_ = "string", json_path = ".status.imports.whereabouts"),
    printcolumn(name = "Spiderpool", type_ = "string", json_path = ".status.imports.spiderpool"),
    printcolumn(name = "Restore", type_ = "string", json_path = ".spec.restore.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AddressStateSpec {
    /// Number of nodes, rounded up to a power of two so that it rarely changes. Nodes compute from it how many addresses
    /// of a pool are their share.
    #[serde(default)]
    pub nodes: i32,
    /// The last restore of etcd that was noticed. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<EtcdRestore>,
}

impl AddressStateSpec {
    /// Identifies the last restore of etcd; empty if there was none.
    pub fn epoch(&self) -> &str {
        self.restore.as_ref().map(|restore| restore.epoch.as_str()).unwrap_or_default()
    }
}

/// A restore of etcd from a backup. It may have lost entries of running pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestore {
    /// Identifies the restore: the time at which the leader learned of it. A later epoch is greater as a text.
    #[schemars(length(min = 1, max = 64))]
    pub epoch: String,
    /// Whether nodes may assign new addresses.
    pub phase: RestorePhase,
    /// Who noticed the restore, and by which revisions of etcd.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// Whether the entries that a restore of etcd lost are written again.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestorePhase {
    /// Every node writes the entries of its running pods again. No node assigns a new address.
    #[default]
    Asserting,
    /// Every node has written its entries, or is fenced. New addresses are assigned again.
    Complete,
}

/// Name of the only AddressState.
pub const ADDRESS_STATE_NAME: &str = "cluster";

/// State of the import of foreign records, and ranges that no node assigns.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressStateStatus {
    /// Whether the addresses that Whereabouts and Spiderpool assigned before are in AddressBlocks. No node assigns an
    /// address before both imports are complete.
    #[serde(default)]
    pub imports: AddressImports,
    /// Whether the cluster daemon writes entries for pods that Whereabouts or Spiderpool attached. A node that misses such
    /// an entry lists its AddressBlocks again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub importing: bool,
    /// Ranges from which no node assigns new addresses. Assigned addresses stay, and can be released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub blocked_ranges: Vec<BlockedAddressRange>,
    /// Some of the nodes that have not written their entries again after a restore of etcd. No node assigns an address
    /// before they do, are deleted, or have the taint `node.kubernetes.io/out-of-service`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub waiting_nodes: Vec<String>,
    /// Conditions: `RecordsImported`, `RecordsReadable`, `NoConflictingRecords`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Progress of the imports of foreign records.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressImports {
    /// Import of Whereabouts' IPPools.
    #[serde(default)]
    pub whereabouts: ImportPhase,
    /// Import of the records in the status of SpiderIPPools.
    #[serde(default)]
    pub spiderpool: ImportPhase,
}

impl AddressImports {
    /// Whether all imports are complete.
    pub fn are_complete(&self) -> bool {
        [self.whereabouts, self.spiderpool].iter().all(|phase| *phase == ImportPhase::Complete)
    }
}

/// Whether the records of a replaced system are in AddressBlocks.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImportPhase {
    /// Not all records have been read and imported yet.
    #[default]
    Pending,
    /// All readable records have an entry in an AddressBlock, and the ranges of the others are blocked.
    Complete,
}

/// A range from which no node assigns new addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedAddressRange {
    /// IP space of the range, as in an AddressBlock. Absent if the range is blocked in every space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub space: Option<String>,
    /// First and last address, `<first>-<last>`.
    #[schemars(length(min = 5, max = 91))]
    pub range: String,
    /// Why the range is blocked, with the object that is the cause.
    #[schemars(length(max = 1024))]
    pub reason: String,
}
