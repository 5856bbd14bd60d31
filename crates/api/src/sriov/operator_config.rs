//! The kind SriovOperatorConfig.

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
    /// Labels of the nodes to configure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_daemon_node_selector: BTreeMap<String, String>,
    /// Whether the webhook adds resource requests to pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_injector: Option<bool>,
    /// Whether objects are validated on admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_operator_webhook: Option<bool>,
    /// Log level, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub log_level: Option<i64>,
    /// Whether nodes are changed without draining them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_drain: Option<bool>,
    /// Whether Open vSwitch hardware offload is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_ovs_offload: Option<bool>,
    /// `daemon` or `systemd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["daemon", "systemd"]))]
    pub configuration_mode: Option<String>,
    /// Whether devices are allocated through CDI.
    #[serde(default, rename = "useCDI", skip_serializing_if = "Option::is_none")]
    pub use_cdi: Option<bool>,
    /// Vendor plugins to skip: `mellanox`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable_plugins: Vec<String>,
    /// Feature gates by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Environment of the config daemon.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_daemon_env_vars: BTreeMap<String, String>,
}

/// State of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovOperatorConfigStatus {
    /// State of the injector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injector: Option<String>,
    /// State of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_webhook: Option<String>,
    /// The conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
