//! Determines the device resource that a pod must request for a network.

use super::{NetworkCaches, NetworkSpecError, ib_definition, spider_definition};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use kube::ResourceExt;

/// A device resource that a pod must request to use a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    pub resource: String,
    /// Whether the device is shared, so that one unit of the resource is enough for all networks of a pod.
    pub shared: bool,
}

/// Returns the name of the NetworkAttachmentDefinition of a SpiderMultusConfig, and the resource that a pod
/// must request for it, if any. Returns `None` if the config is invalid.
pub fn config_resource_request(config: &SpiderMultusConfig) -> Option<(String, Option<ResourceRequest>)> {
    let name = spider_definition::definition_name(config).ok()?;
    let section = spider_definition::SpiderSection::from_spec(&config.spec, &mut Vec::new()).ok()?;
    let shared = !matches!(
        section,
        spider_definition::SpiderSection::IbSriov(_) | spider_definition::SpiderSection::Sriov(_)
    );
    let resource = section.resource().ok()?;
    Some((name, resource.map(|resource| ResourceRequest { resource: resource.to_string(), shared })))
}

/// Returns the namespace of a SriovIBNetwork's NetworkAttachmentDefinition, and the resource that a pod must
/// request for it. Returns `None` if the object is invalid.
pub fn ib_resource_request(network: &SriovIBNetwork, prefix: &str) -> Option<(String, ResourceRequest)> {
    let definition = ib_definition::desired(network, prefix).ok()?.definition;
    let resource = definition.annotations.get(ferroband_api::annotation::RESOURCE_NAME)?.clone();
    Some((definition.namespace, ResourceRequest { resource, shared: false }))
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupNetwork {
    /// Namespace of the NetworkAttachmentDefinition.
    pub namespace: String,
    /// Name of the NetworkAttachmentDefinition.
    pub name: String,
    /// Resource that a pod must request for the network; `None` if it needs none.
    pub request: Option<ResourceRequest>,
}

/// Returns the networks of all SpiderMultusConfigs that have the group annotation `key` with the value
/// `value`, in namespaces that `is_allowed` accepts. If one config is invalid, returns that config and its error: a pod
/// with only some of its networks would be worse than no pod.
pub fn group_networks(
    caches: &NetworkCaches,
    (key, value): (&str, &str),
    is_allowed: impl Fn(&str) -> bool,
) -> Result<Vec<GroupNetwork>, (String, NetworkSpecError)> {
    let mut networks = Vec::new();
    for ((namespace, name), config) in caches.spider_configs.list() {
        if config.metadata.deletion_timestamp.is_some()
            || !is_allowed(&namespace)
            || !spider_definition::groups(&config).any(|group| group == (key, value))
        {
            continue;
        }
        let desired = spider_definition::desired(&config)
            .map_err(|error| (format!("SpiderMultusConfig {namespace}/{name}"), error))?;
        let request = config_resource_request(&config).and_then(|(_, request)| request);
        networks.push(GroupNetwork { namespace, name: desired.definition.name, request });
    }
    Ok(networks)
}

/// Returns the value of the annotation that sets the name of the NetworkAttachmentDefinition of a
/// SpiderMultusConfig. The webhook denies changes of this annotation.
pub fn definition_name_annotation(config: &SpiderMultusConfig) -> Option<&String> {
    config.annotations().get(spider_definition::NAME_ANNOTATION)
}
