//! Software bridges in SriovNetworkNodePolicy and SriovNetworkNodeState.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bridge requested by a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyBridge {
    /// Open vSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<PolicyOvs>,
}

/// Open vSwitch bridge requested by a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyOvs {
    /// The bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<OvsBridge>,
    /// Its uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<PolicyUplink>,
}

/// The uplink of a policy's bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyUplink {
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<OvsInterface>,
}

/// Settings of an Open vSwitch bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsBridge {
    /// `datapath_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath_type: Option<String>,
    /// `external_ids`.
    #[serde(default, rename = "externalIDs", skip_serializing_if = "BTreeMap::is_empty")]
    pub external_ids: BTreeMap<String, String>,
    /// `other_config`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_config: BTreeMap<String, String>,
    /// `fail_mode`: `secure` or `standalone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["secure", "standalone"]))]
    pub fail_mode: Option<String>,
}

/// Settings of an Open vSwitch port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsInterface {
    /// `type`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `options`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// `external_ids`.
    #[serde(default, rename = "externalIDs", skip_serializing_if = "BTreeMap::is_empty")]
    pub external_ids: BTreeMap<String, String>,
    /// `other_config`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_config: BTreeMap<String, String>,
    /// `mtu_request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_request: Option<i64>,
}

/// The bridges of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBridges {
    /// Those of Open vSwitch, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ovs: Vec<NodeBridge>,
}

/// A bridge of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBridge {
    /// Its name, `br-` and the PCI address.
    pub name: String,
    /// Its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<OvsBridge>,
    /// Its uplinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<NodeUplink>,
}

/// An uplink of a node's bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUplink {
    /// PCI address of the physical function.
    pub pci_address: String,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<OvsInterface>,
}
