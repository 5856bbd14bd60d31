//! SriovOperatorConfig (`sriovnetwork.openshift.io/v1`): cluster-wide settings of the SR-IOV network operator.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of the SR-IOV network operator. Only the object named `default` is used.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovOperatorConfig",
    plural = "sriovoperatorconfigs",
    namespaced,
    status = "SriovOperatorConfigStatus",
    derive = "PartialEq",
    doc = "Settings of the SR-IOV network operator. Only the object named default is used.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SriovOperatorConfigSpec {
    /// Labels that a node must have for policies to apply to it; all Linux nodes if empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_daemon_node_selector: BTreeMap<String, String>,
    /// Whether the webhook adds resource requests to pods. Ferroband ignores it.
    pub enable_injector: Option<bool>,
    /// Whether a webhook validates objects on admission. Ferroband ignores it.
    pub enable_operator_webhook: Option<bool>,
    /// Log level of the operator, from 0 to 2. Ferroband ignores it.
    #[schemars(range(min = 0, max = 2))]
    pub log_level: Option<i64>,
    /// Whether nodes are changed without draining them.
    pub disable_drain: Option<bool>,
    /// Whether Open vSwitch hardware offload is enabled. Ferroband ignores it.
    pub enable_ovs_offload: Option<bool>,
    /// Where the configuration runs: in the `daemon`, or in `systemd` units at boot. Ferroband ignores it.
    #[schemars(extend("enum" = ["daemon", "systemd"]))]
    pub configuration_mode: Option<String>,
    /// Whether the device plugin allocates devices through CDI. Ferroband ignores it.
    #[serde(rename = "useCDI")]
    pub use_cdi: Option<bool>,
    /// Vendor plugins to skip. With `mellanox`, adapter firmware is not configured. Other names are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable_plugins: Vec<String>,
    /// Feature gates of the operator by name. Ferroband ignores them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Environment variables of the operator's config daemon. Ferroband ignores them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_daemon_env_vars: BTreeMap<String, String>,
}

/// Observed state of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovOperatorConfigStatus {
    /// Upstream field: state of the operator's resource injector.
    pub injector: Option<String>,
    /// Upstream field: state of the operator's webhook.
    pub operator_webhook: Option<String>,
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
