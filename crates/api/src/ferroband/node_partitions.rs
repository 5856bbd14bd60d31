//! NodePartitions (`ferroband.io/v1alpha1`): the partition memberships that one node's pods need.

use super::FabricName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GUIDs of one node's virtual functions, and the desired partition memberships of its pods. Written by the node
/// daemon. The cluster daemon programs the subnet manager from all of these objects.
///
/// The name is the node's name. A member is listed from before its interface is created until its sandbox is confirmed
/// gone.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ferroband.io",
    version = "v1alpha1",
    kind = "NodePartitions",
    plural = "nodepartitions",
    category = "ferroband",
    status = "NodePartitionsStatus",
    doc = "GUIDs of one node's virtual functions, and the desired partition memberships of its pods.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.problem"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodePartitionsSpec {
    /// Name of the Fabric; only `default` is supported.
    #[serde(default)]
    pub fabric: FabricName,
    /// GUIDs of the node's virtual functions by PCI address, in use or not. They belong to this node exclusively.
    // Both fields are serialized even if they are empty: server-side apply would treat a spec without fields as null.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 4096))]
    pub functions: BTreeMap<String, String>,
    /// Desired partition memberships, by `<container>.<interface>`.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 4096))]
    pub members: BTreeMap<String, NodeMember>,
    /// What the node reports about restores of etcd. Absent before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<NodeAddressReport>,
}

/// What a node reports about restores of etcd (AddressState, `spec.restore`).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAddressReport {
    /// Last epoch of AddressState for which the node has written the entries of its running pods again. Empty before the
    /// first restore.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub asserted_epoch: String,
    /// A restore that the node noticed and that the AddressState did not show yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noticed: Option<NoticedRestore>,
    /// Random text of a daemon that does not know which revision of etcd its predecessor saw. The leader repeats it in
    /// `status.confirmedStart` unless a restore is under way. Until then, the node assigns no new addresses.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub start: String,
}

/// A restore of etcd that a node noticed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NoticedRestore {
    /// Epoch of the AddressState when the node noticed the restore. The leader ignores the report if the AddressState
    /// has another epoch: the restore is known then.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub epoch: String,
    /// The revisions of etcd that show the restore.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub reason: String,
}

/// A desired partition membership of a pod's port.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMember {
    /// PCI address of the function whose port is the member.
    #[schemars(length(max = 64))]
    pub device: String,
    /// GUID of the port, eight colon-separated bytes.
    #[schemars(length(min = 16, max = 23))]
    pub guid: String,
    /// P_Key without the membership bit: `0x03e8`.
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new("self.matches('^0x[0-7][0-9a-f]{3}$') && self != '0x0000' && self != '0x7fff'").message("pkey must be 0x0001 to 0x7ffe"))]
    pub pkey: String,
    /// Whether the port is a limited member; it is a full member if this is absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limited: bool,
    /// Whether the port is the physical function's port, which several pods share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Namespace of the pod that uses the port.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the pod that uses the port.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// UID of the pod. It distinguishes the pod from a later pod of the same name.
    #[schemars(length(max = 128))]
    pub uid: String,
    /// The network that requests the membership, `<namespace>/<name>`.
    #[schemars(length(max = 320))]
    pub network: String,
}

/// State of the memberships, written by the cluster daemon.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePartitionsStatus {
    /// Generation of the spec that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// No subnet manager is configured. Partition memberships are managed outside of Ferroband.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged: bool,
    /// Number of members in `waiting`.
    #[serde(default)]
    pub pending: i32,
    /// First error message in `waiting`, shown by `kubectl get`. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Members that are not programmed in the subnet manager yet, by the keys of `spec.members`, with the reason.
    /// Programmed members are not listed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waiting: BTreeMap<String, WaitingMember>,
    /// Memberships that Ferroband adds to partitions, as `<pkey> <guid>`. Each is recorded here before it is added, and
    /// stays until its removal is confirmed. Ferroband never removes a physical port that is not recorded here, because
    /// someone else added it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<String>,
    /// Accepted members, by the keys of `spec.members`, as `<pkey> <guid>`. A Partition that is enforced later does not
    /// remove them unless its `removeRunningMembers` is set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accepted: BTreeMap<String, String>,
    /// The `spec.addresses.start` that the leader confirmed: etcd was not restored since the previous leader, or all
    /// nodes have written their entries again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confirmed_start: String,
    /// Conditions: `PortsNotShared`, `PKeysAvailable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Why a member is not programmed in the subnet manager yet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingMember {
    /// Whether the membership is rejected, for the reason in `message`, and therefore not programmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Number of failed attempts to program the member; 0 before the first.
    #[serde(default)]
    pub attempts: i32,
    /// Reason of the rejection, or error of the last attempt. Empty before the first attempt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
