//! A network that pods can name.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fields beside the metadata.
///
/// `spec` may be missing altogether (the configuration is then a file on each node), so it is a field of its own
/// with a default rather than the derived, mandatory one: one such object must not make the list unreadable.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    shortname = "nad",
    namespaced,
    no_spec,
    derive = "PartialEq",
    doc = "A network that pods attach to by naming it in an annotation."
)]
pub struct NetworkAttachmentDefinitionFields {
    /// The network.
    #[serde(default)]
    pub spec: NetworkAttachmentDefinitionSpec,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkAttachmentDefinitionSpec {
    /// A CNI configuration or configuration list, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

impl NetworkAttachmentDefinition {
    /// The configuration as written; `None` when the definition leaves it to a file on the node.
    pub fn config(&self) -> Option<&str> {
        self.spec.spec.config.as_deref().filter(|config| !config.trim().is_empty())
    }

    /// The resource whose devices the network uses, from the annotation.
    pub fn resource_name(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(crate::annotation::RESOURCE_NAME).map(String::as_str).filter(|name| !name.is_empty())
    }
}
