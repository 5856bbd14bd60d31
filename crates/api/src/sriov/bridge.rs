//! Software bridges in SriovNetworkNodePolicy and SriovNetworkNodeState.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The software bridge that a policy requests for its functions. Upstream fields; Ferroband creates no bridges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyBridge {
    /// The requested Open vSwitch bridge; absent if the policy requests none.
    pub ovs: Option<PolicyOvs>,
}

/// The Open vSwitch bridge that a policy requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyOvs {
    /// Settings of the bridge in the Open vSwitch table `Bridge`.
    pub bridge: Option<OvsBridge>,
    /// Settings of the port that connects the physical function.
    pub uplink: Option<PolicyUplink>,
}

/// The port that connects the physical function to the bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyUplink {
    /// Settings of the port in the Open vSwitch table `Interface`.
    pub interface: Option<OvsInterface>,
}

/// Columns of the Open vSwitch table `Bridge`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsBridge {
    /// Column `datapath_type`: `system`, `netdev` or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath_type: Option<String>,
    /// Column `external_ids`: keys for external management systems.
    #[serde(default, rename = "externalIDs", skip_serializing_if = "BTreeMap::is_empty")]
    pub external_ids: BTreeMap<String, String>,
    /// Column `other_config`: rarely used settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_config: BTreeMap<String, String>,
    /// Column `fail_mode`: `secure` or `standalone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["secure", "standalone"]))]
    pub fail_mode: Option<String>,
}

/// Columns of the Open vSwitch table `Interface`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsInterface {
    /// Column `type`, for example `dpdk`; empty for a kernel interface.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Column `options`: settings that depend on the type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Column `external_ids`: keys for external management systems.
    #[serde(default, rename = "externalIDs", skip_serializing_if = "BTreeMap::is_empty")]
    pub external_ids: BTreeMap<String, String>,
    /// Column `other_config`: rarely used settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_config: BTreeMap<String, String>,
    /// Column `mtu_request`: the requested MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_request: Option<i64>,
}

/// The software bridges of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBridges {
    /// Open vSwitch bridges of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ovs: Vec<NodeBridge>,
}

/// An Open vSwitch bridge of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBridge {
    /// Name of the bridge: `br-` and the PCI address of the physical function.
    pub name: String,
    /// Settings of the bridge in the Open vSwitch table `Bridge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<OvsBridge>,
    /// Ports that connect physical functions to the bridge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<NodeUplink>,
}

/// A port that connects a physical function to a bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUplink {
    /// PCI address of the physical function.
    pub pci_address: String,
    /// Interface name of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Settings of the port in the Open vSwitch table `Interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<OvsInterface>,
}
