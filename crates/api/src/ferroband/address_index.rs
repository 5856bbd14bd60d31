//! AddressIndex (`ferroband.io/v1alpha1`): which AddressBlocks of an IP space exist, for nodes that need another block.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// A list of the existing AddressBlocks of one IP space. Written by the cluster daemon, read by nodes that look for free
/// addresses. It is a hint: an address is assigned only by its entry in an AddressBlock, and a node that finds the list
/// absent or outdated needs more requests, nothing else.
///
/// The name is `<space>-<shard>`. Objects of one space have the same label `ferroband.io/space`.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "AddressIndex",
    plural = "addressindexes",
    category = "ferroband",
    doc = "A list of the existing AddressBlocks of one IP space. It is a hint for nodes that look for free addresses.",
    derive = "PartialEq",
    printcolumn(name = "Space", type_ = "string", json_path = ".spec.space"),
    printcolumn(name = "Shard", type_ = "integer", json_path = ".spec.shard"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AddressIndexSpec {
    /// IP space of the blocks: `default`, `network/<name>` or `pool/<subnet>`.
    #[schemars(length(min = 1, max = 512))]
    pub space: String,
    /// Number of this object among those of the space, from 0. All blocks of an object have lower addresses than those
    /// of the next.
    #[schemars(range(min = 0))]
    pub shard: i32,
    /// Existing blocks in the order of their addresses, each as `<first address> <assigned addresses> <h or ->`; `h` if
    /// a node has reserved the block.
    // At most 8,000 entries of at most 51 bytes keep the object below 500 kB.
    #[serde(default)]
    #[schemars(length(max = 8000))]
    pub blocks: Vec<String>,
}
