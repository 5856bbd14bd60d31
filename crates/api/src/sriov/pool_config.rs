//! Nodes that are configured alike.

use super::NoStatus;
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
    status = "NoStatus",
    derive = "PartialEq",
    doc = "Nodes that are configured alike, and how many of them at once."
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
