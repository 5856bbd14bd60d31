//! SriovIBNetwork (`sriovnetwork.openshift.io/v1`): the source of a generated NetworkAttachmentDefinition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network of InfiniBand virtual functions, from which a NetworkAttachmentDefinition is generated.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "sriovnetwork.openshift.io",
    version = "v1",
    kind = "SriovIBNetwork",
    plural = "sriovibnetworks",
    namespaced,
    status = "ConditionsStatus",
    derive = "PartialEq",
    doc = "A network of InfiniBand virtual functions, from which a NetworkAttachmentDefinition is generated.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SriovIBNetworkSpec {
    /// Device plugin resource of the virtual functions, without prefix.
    pub resource_name: String,
    /// Namespace of the NetworkAttachmentDefinition; defaults to this object's namespace.
    pub network_namespace: Option<String>,
    /// The plugin's `capabilities` object, as JSON.
    pub capabilities: Option<String>,
    /// The plugin's `ipam` object, as JSON. If absent, interfaces get no addresses.
    pub ipam: Option<String>,
    /// Link state of the function: `auto`, `enable` or `disable`.
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: Option<String>,
    /// Configurations of plugins that run after the main plugin: JSON objects separated by commas, without brackets.
    pub meta_plugins: Option<String>,
    /// P_Key, as an integer or as a string. Ferroband extension.
    #[x_kube(validation = Rule::new(crate::PKEY_RULE).message(crate::PKEY_MESSAGE))]
    pub pkey: Option<IntOrString>,
    /// Whether the RDMA device moves into the pod. If absent, the node's RDMA netns mode decides. Ferroband extension.
    pub rdma_isolation: Option<bool>,
    /// Whether the function's GUID is added to the partition in the subnet manager. Ferroband extension.
    pub ib_kubernetes_enabled: Option<bool>,
}

/// Observed state, reported only as conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsStatus {
    /// Conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
