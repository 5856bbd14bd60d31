//! What a node has and shall have.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use super::NodeBridges;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a node shall have, merged from all policies; the object has the node's name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkNodeState",
    plural = "sriovnetworknodestates",
    namespaced,
    status = "SriovNetworkNodeStateStatus",
    derive = "PartialEq",
    doc = "The virtual functions that a node has and shall have.",
    printcolumn(name = "Sync Status", type_ = "string", json_path = ".status.syncStatus"),
    printcolumn(
        name = "Desired Sync State",
        type_ = "string",
        json_path = ".metadata.annotations.sriovnetwork\\.openshift\\.io/desired-state"
    ),
    printcolumn(
        name = "Current Sync State",
        type_ = "string",
        json_path = ".metadata.annotations.sriovnetwork\\.openshift\\.io/current-state"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct SriovNetworkNodeStateSpec {
    /// The physical functions to configure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceSpec>,
    /// The bridges to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Settings of the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
}

/// A physical function to configure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceSpec {
    /// Its PCI address.
    pub pci_address: String,
    /// How many virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The link layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// The e-switch mode.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// Whether somebody else makes the functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// What its virtual functions are for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vf_groups: Vec<VfGroup>,
}

/// Virtual functions of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfGroup {
    /// The resource, without prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// First and last, `a-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_range: Option<String>,
    /// The policy they come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_name: Option<String>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Whether their RDMA devices go with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// The vDPA type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// Whether `/dev/vhost-net` is given out with them. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// Whether the kubelet is not told their NUMA nodes. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_topology: Option<bool>,
}

/// Settings of the whole node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemState {
    /// Whether RDMA devices belong to network namespaces: `shared` or `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
    /// Whether the node may be rebooted for what cannot take effect otherwise. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_reboot: Option<bool>,
    /// Whether functions are changed under the pods that hold them. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_drain: Option<bool>,
    /// Vendor steps that are left out: `mellanox`. Ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable_plugins: Vec<String>,
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodeStateStatus {
    /// Its physical functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// Its bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Settings of the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
    /// `Succeeded`, `Failed` or `InProgress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_status: Option<String>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_error: Option<String>,
    /// Which generation of the spec this is about. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pods that must go before the node can be changed. Ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<VfHolder>,
    /// The conditions, one of each type. Ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A pod that holds a virtual function which is about to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfHolder {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another pod of that name holds nothing.
    pub uid: String,
    /// The functions that it holds.
    pub devices: Vec<String>,
}

/// A physical function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// Its PCI address.
    pub pci_address: String,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its link-layer address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// PCI vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// PCI device.
    #[serde(default, rename = "deviceID", alias = "deviceId", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The network of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// How many virtual functions it has.
    #[serde(default, alias = "numVFs", alias = "numvfs", skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// How many it could have.
    #[serde(
        default,
        rename = "totalvfs",
        alias = "totalVfs",
        alias = "totalVFs",
        skip_serializing_if = "Option::is_none"
    )]
    pub total_vfs: Option<i64>,
    /// Speed, `<n> Mb/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_speed: Option<String>,
    /// The link layer, `ETH` or `IB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// Whether the link is set `up` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_admin_state: Option<String>,
    /// The e-switch mode.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// Whether somebody else makes the functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Its virtual functions.
    #[serde(default, rename = "Vfs", alias = "vfs", alias = "VFs", skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
    /// Further names of its interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alt_names: Vec<String>,
}

/// A virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// Its PCI address.
    pub pci_address: String,
    /// Its number.
    #[serde(rename = "vfID", alias = "vfId")]
    pub vf_id: i64,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its link-layer address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// What it is assigned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<String>,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// PCI vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// PCI device.
    #[serde(default, rename = "deviceID", alias = "deviceId", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The VLAN.
    #[serde(default, rename = "Vlan", alias = "vlan", skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i64>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// The vDPA type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// Its representor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representor_name: Option<String>,
    /// Its GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
}
