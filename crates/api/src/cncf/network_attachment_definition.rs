//! NetworkAttachmentDefinition (`k8s.cni.cncf.io/v1`): the CNI configuration of a network that pods request by name.

use crate::Error;
use ferroband_config::NetworkConfig;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fields of a NetworkAttachmentDefinition besides its metadata.
///
/// Objects without `spec` exist: their configuration is a file on each node. `spec` is therefore an explicit field with
/// a default. With the derived, mandatory `spec`, one such object would fail the whole list request.
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
    doc = "A network that pods attach to by naming it in the annotation k8s.v1.cni.cncf.io/networks."
)]
pub struct NetworkAttachmentDefinitionFields {
    /// The CNI configuration of the network; empty if the configuration is a file on each node.
    #[serde(default)]
    pub spec: NetworkAttachmentDefinitionSpec,
}

/// The CNI configuration of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI configuration or configuration list, as JSON. If absent, the configuration is a file on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

impl NetworkAttachmentDefinition {
    /// Returns the configuration as written, or `None` if it is a file on the node.
    pub fn config(&self) -> Option<&str> {
        self.spec.spec.config.as_deref().filter(|config| !config.trim().is_empty())
    }

    /// Parses the configuration. The object's name is used if the configuration has none.
    pub fn network_config(&self) -> Result<NetworkConfig, Error> {
        let network = format!("{}/{}", self.namespace().unwrap_or_default(), self.name_any());
        match self.config() {
            Some(text) => Ok(NetworkConfig::parse(&network, text, &self.name_any())?),
            None => Err(Error::NoConfig { network }),
        }
    }

    /// Returns the device plugin resource of the network from its annotation; `None` if it uses no devices.
    pub fn resource_name(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(crate::annotation::RESOURCE_NAME).map(String::as_str).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(config: Option<&str>) -> NetworkAttachmentDefinition {
        let spec = config.map_or(json!({}), |config| json!({"spec": {"config": config}}));
        let mut object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "nad", "namespace": "ns"},
        });
        object.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn definition_without_config_is_reported() {
        for empty in [None, Some(""), Some("  \n")] {
            assert!(
                matches!(definition(empty).network_config(), Err(Error::NoConfig { network }) if network == "ns/nad")
            );
        }
        let config = definition(Some(r#"{"type": "ipoib"}"#)).network_config().unwrap();
        assert_eq!(config.name, "nad");
    }
}
