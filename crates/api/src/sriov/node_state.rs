//! The kind SriovNetworkNodeState.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use super::NodeBridges;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired configuration of a node, merged from all policies. The object has the node's name.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkNodeState",
    plural = "sriovnetworknodestates",
    namespaced,
    status = "SriovNetworkNodeStateStatus",
    derive = "PartialEq",
    doc = "The desired and actual virtual functions of a node.",
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
    /// Bridges to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Node-wide settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
}

/// A physical function to configure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceSpec {
    /// Its PCI address.
    pub pci_address: String,
    /// Number of virtual functions.
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
    /// Whether the virtual functions are created outside of Ferroband.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Groups of its virtual functions, one per resource.
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
    /// First and last function, `a-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_range: Option<String>,
    /// Policy that requests them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_name: Option<String>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Whether containers also get the functions' RDMA devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// The vDPA type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// Whether containers also get `/dev/vhost-net`. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// Do not report NUMA topology to the kubelet. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_topology: Option<bool>,
}

/// Node-wide settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemState {
    /// RDMA netns mode: `shared` or `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
    /// Whether the node may be rebooted for changes that require it. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_reboot: Option<bool>,
    /// Whether functions are changed while pods still use them. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_drain: Option<bool>,
    /// Vendor plugins to skip: `mellanox`. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable_plugins: Vec<String>,
}

/// Actual state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodeStateStatus {
    /// Its physical functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// Its bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Node-wide settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
    /// `Succeeded`, `Failed` or `InProgress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_status: Option<String>,
    /// Last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_error: Option<String>,
    /// Generation of the spec that this status describes. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that must be evicted before the node can be changed. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<VfHolder>,
    /// Conditions, one of each type. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A pod that uses virtual functions which are about to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfHolder {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; a new pod of the same name is not a holder.
    pub uid: String,
    /// Functions that it uses.
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
    /// Network of the virtualization platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
    /// The MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Number of virtual functions.
    #[serde(default, alias = "numVFs", alias = "numvfs", skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// Maximum number of virtual functions.
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
    /// Administrative link state, `up` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_admin_state: Option<String>,
    /// The e-switch mode.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// Whether the virtual functions are created outside of Ferroband.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Its virtual functions.
    #[serde(default, rename = "Vfs", alias = "vfs", alias = "VFs", skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
    /// Altnames of its interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alt_names: Vec<String>,
}

/// A virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// Its PCI address.
    pub pci_address: String,
    /// Its index.
    #[serde(rename = "vfID", alias = "vfId")]
    pub vf_id: i64,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its link-layer address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Upstream field: what it is assigned to.
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
