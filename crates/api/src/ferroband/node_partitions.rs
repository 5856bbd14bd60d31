//! What a node's functions are called on the fabric, and which pod's is in which partition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One node's functions by GUID, and the partitions that its pods shall be members of. Written by the node's daemon; the
/// cluster daemon programs the subnet manager from all of them.
///
/// The name is the node's. A member stands here from before its interface exists until its sandbox is known to be gone.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "NodePartitions",
    plural = "nodepartitions",
    category = "ferroband",
    status = "NodePartitionsStatus",
    doc = "One node's functions by GUID, and the partitions that its pods shall be members of.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.problem"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodePartitionsSpec {
    /// The GUIDs of the node's virtual functions by PCI address, used or not. They are this node's alone.
    // Written also when it is empty, as `members` is: a spec without any field would be null to a server-side apply.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 4096))]
    pub functions: BTreeMap<String, String>,
    /// Who shall be in which partition, by `<container>.<interface>`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 4096))]
    pub members: BTreeMap<String, NodeMember>,
}

/// A pod's port that shall be in a partition.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMember {
    /// The function, by PCI address.
    #[schemars(length(max = 64))]
    pub device: String,
    /// Its port's GUID.
    #[schemars(length(min = 16, max = 23))]
    pub guid: String,
    /// The partition, without the membership bit: `0x03e8`.
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.matches('^0x[0-7][0-9a-f]{3}$') && self != '0x0000' && self != '0x7fff'").message("a P_Key is 0x0001 to 0x7ffe"))]
    pub pkey: String,
    /// `limited`, or a full member when absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
    /// Whether the port is the adapter's own, which all its pods share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The pod's namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// The pod's name.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// The pod's UID.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// The network that asked for it, `<namespace>/<name>`.
    #[schemars(length(max = 320))]
    pub network: String,
}

/// What has become of it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePartitionsStatus {
    /// The generation of the object that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Nobody manages partitions here: ports are in those that somebody else puts them into.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged: bool,
    /// How many members are not programmed yet.
    #[serde(default)]
    pub pending: i32,
    /// The first of the problems, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Members that the subnet manager does not have yet, and why. Those that it has are not listed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting: BTreeMap<String, WaitingMember>,
    /// Ports of adapters that were put into partitions by us, as `<pkey> <guid>`; written before it is done. What does
    /// not stand here was put there by somebody else and stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<String>,
    /// Conditions of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Why a member is not programmed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingMember {
    /// Whether it never will be, as things are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: i32,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
