//! SriovNetworkNodeState (`sriovnetwork.openshift.io/v1`): the desired and actual virtual functions of one node.

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
    /// Physical functions that at least one policy selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceSpec>,
    /// Upstream field: bridges to create. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Settings that apply to the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
}

/// A physical function to configure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceSpec {
    /// PCI address of the physical function.
    pub pci_address: String,
    /// Desired number of virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// Desired MTU in bytes; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Interface name; absent if the function has no interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Desired link layer, `eth` or `ib` in lower or upper case; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// Mode of the adapter's embedded switch: `legacy` or `switchdev`.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// Whether the virtual functions are created outside of Ferroband.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Disjoint ranges of virtual functions, one for each policy that configures the physical function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vf_groups: Vec<VfGroup>,
}

/// A range of virtual functions with the settings of one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfGroup {
    /// Device plugin resource of the functions, without prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Driver of the functions: `netdevice` or `vfio-pci`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// Indexes of the first and the last function, `a-b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_range: Option<String>,
    /// Name of the policy that requests the functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_name: Option<String>,
    /// Desired MTU in bytes; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Whether containers also get the functions' RDMA devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// Type of the vDPA device: `virtio` or `vhost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// Whether containers also get `/dev/vhost-net`. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// If true, the device plugin does not report NUMA topology to the kubelet. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_topology: Option<bool>,
}

/// Settings that apply to the whole node.
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
    /// Vendor plugins to skip. With `mellanox`, adapter firmware is not configured. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable_plugins: Vec<String>,
}

/// Actual state of a node, written by the node daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodeStateStatus {
    /// Physical functions of all network adapters, whether a policy selects them or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// Upstream field: bridges of the node. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<NodeBridges>,
    /// Current RDMA netns mode of the node; absent if the kernel has no RDMA support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemState>,
    /// State of the configuration: `Succeeded`, `Failed` or `InProgress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_status: Option<String>,
    /// Error of the last attempt to configure the node; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_error: Option<String>,
    /// Generation of the spec that this status describes. Ferroband extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that must be evicted before the node can be changed. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<VfHolder>,
    /// Changes to the node that are being applied, in this order, and those that wait. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_actions: Vec<PendingAction>,
    /// Conditions, one of each type. Ferroband extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A change to the node that has not been applied yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingAction {
    /// PCI address of the adapter or virtual function that is changed, or `node`.
    pub target: String,
    /// What is changed, for example `GUID 02:00:00:00:00:00:00:01` or `MTU 4092`.
    pub change: String,
    /// What the change waits for; absent if it is applied now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// A pod that uses virtual functions which are about to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfHolder {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod. A new pod of the same name is not a holder.
    pub uid: String,
    /// PCI addresses of the functions that the pod uses.
    pub devices: Vec<String>,
}

/// A physical function and its virtual functions, as found on the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// PCI address of the physical function.
    pub pci_address: String,
    /// Interface name; absent if the function has no interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Link-layer address of the interface, colon-separated: 6 bytes for Ethernet, 20 for InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Bound kernel driver; absent if none is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// PCI vendor ID, four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// PCI device ID, four hexadecimal digits.
    #[serde(default, rename = "deviceID", alias = "deviceId", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Upstream field: network of the virtualization platform. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
    /// Current MTU in bytes; absent if the function has no interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Number of existing virtual functions.
    #[serde(default, alias = "numVFs", alias = "numvfs", skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// Maximum number of virtual functions that the adapter supports now (`sriov_totalvfs`).
    #[serde(
        default,
        rename = "totalvfs",
        alias = "totalVfs",
        alias = "totalVFs",
        skip_serializing_if = "Option::is_none"
    )]
    pub total_vfs: Option<i64>,
    /// Link speed, `<n> Mb/s`; absent if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_speed: Option<String>,
    /// The link layer, `ETH` or `IB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// Administrative link state, `up` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_admin_state: Option<String>,
    /// Upstream field: mode of the adapter's embedded switch. Ferroband never sets it.
    #[serde(default, rename = "eSwitchMode", skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// Upstream field: whether the virtual functions are created outside of the operator. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Existing virtual functions, in the order of their indexes.
    #[serde(default, rename = "Vfs", alias = "vfs", alias = "VFs", skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
    /// Alternative names (altnames) of the interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alt_names: Vec<String>,
}

/// A virtual function, as found on the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// PCI address of the virtual function.
    pub pci_address: String,
    /// Index of the virtual function on its physical function, from 0.
    #[serde(rename = "vfID", alias = "vfId")]
    pub vf_id: i64,
    /// Interface name; absent if the function has no interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Link-layer address of the interface, colon-separated: 6 bytes for Ethernet, 20 for InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Upstream field: what the function is assigned to. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<String>,
    /// Bound kernel driver; absent if none is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// PCI vendor ID, four hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// PCI device ID, four hexadecimal digits.
    #[serde(default, rename = "deviceID", alias = "deviceId", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Upstream field: VLAN ID of the function. Ferroband never sets it.
    #[serde(default, rename = "Vlan", alias = "vlan", skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i64>,
    /// Current MTU in bytes; absent if the function has no interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Upstream field: type of the vDPA device. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// Upstream field: interface name of the function's representor. Ferroband never sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representor_name: Option<String>,
    /// Node GUID, colon-separated. All zeros before a GUID is set, all ones after a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
}
