//! StickyAddresses (`ferroband.io/v1alpha1`): where the addresses of a StatefulSet pod are.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The addresses that are kept for the pods of one name. A node that starts such a pod reads this object to find their
/// AddressBlocks. It is a pointer: an address belongs to the pod only if its entry in the AddressBlock says so.
///
/// The object has the name and the namespace of the pod. It is written before the entries, and deleted by the cluster
/// daemon when it frees the addresses.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "StickyAddresses",
    plural = "stickyaddresses",
    category = "ferroband",
    namespaced,
    doc = "The addresses that are kept for the pods of one name, as of a StatefulSet.",
    derive = "PartialEq",
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses[*].address"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct StickyAddressesSpec {
    /// Addresses of the pod's interfaces.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub addresses: Vec<StickyAddressEntry>,
}

/// One address that is kept for the pods of a name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StickyAddressEntry {
    /// Interface name in the pod.
    #[schemars(length(max = 15))]
    pub interface: String,
    /// Index among the interface's addresses of this family, if it has several.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 255))]
    pub ordinal: i32,
    /// IP space of the address, as in an AddressBlock.
    #[schemars(length(min = 1, max = 512))]
    pub space: String,
    /// IP address, without prefix length.
    #[schemars(length(min = 2, max = 45))]
    pub address: String,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}
