//! SriovNetworkPoolConfig (`sriovnetwork.openshift.io/v1`): settings and drain limits for a pool of nodes.

use super::ConditionsStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of nodes with common settings, and how many of them may be changed at once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovNetworkPoolConfig",
    plural = "sriovnetworkpoolconfigs",
    namespaced,
    status = "ConditionsStatus",
    derive = "PartialEq",
    doc = "A pool of nodes with common settings, and how many of them may be changed at once.",
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
    /// Nodes of the pool; all if absent.
    pub node_selector: Option<LabelSelector>,
    /// Number or percentage of nodes that may be drained at once; unlimited if absent.
    pub max_unavailable: Option<IntOrString>,
    /// RDMA netns mode of the nodes: `shared` or `exclusive`. Unchanged if absent.
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
    /// Whether the nodes may be rebooted, once for each change that requires it. Otherwise a node reports
    /// `RebootRequired` and waits. Ferroband extension.
    pub allow_reboot: Option<bool>,
    /// Upstream settings for Open vSwitch hardware offload. Ferroband ignores a pool that names a machine config pool
    /// here.
    pub ovs_hardware_offload_config: Option<OvsHardwareOffload>,
}

/// Upstream settings for Open vSwitch hardware offload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsHardwareOffload {
    /// Name of the OpenShift MachineConfigPool whose nodes use hardware offload.
    pub name: Option<String>,
}
