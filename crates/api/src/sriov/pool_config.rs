//! Nodes that are configured alike.

#![expect(
    clippy::duplicated_attributes,
    reason = "the lint looks inside `printcolumn(…)`, one for each column"
)]

use super::ConditionsStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nodes that are configured alike, and how many of them at once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkPoolConfig",
    plural = "sriovnetworkpoolconfigs",
    namespaced,
    status = "ConditionsStatus",
    derive = "PartialEq",
    doc = "Nodes that are configured alike, and how many of them at once.",
    printcolumn(name = "Max Unavailable", type_ = "string", json_path = ".spec.maxUnavailable"),
    printcolumn(name = "RDMA Mode", type_ = "string", json_path = ".spec.rdmaMode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkPoolConfigSpec {
    /// Which nodes; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// How many of them may be drained at once, a number or a percentage; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Whether RDMA devices belong to network namespaces: `shared` or `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
    /// Whether these nodes may be rebooted, once for each change that cannot take effect otherwise. Without it a node
    /// says `RebootRequired` and waits. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_reboot: Option<bool>,
    /// Offloading of Open vSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs_hardware_offload_config: Option<OvsHardwareOffload>,
}

/// Offloading of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsHardwareOffload {
    /// The pool of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
