//! The device resource that a pod must request for a network.

use super::{NetworkCaches, NetworkSpecError, ib_definition, spider_definition};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use kube::ResourceExt;

/// A device resource that a network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    pub resource: String,
    /// Whether one unit serves any number of networks, because the device is shared.
    pub shared: bool,
}

/// The name of a config's definition, and the resource that a pod needs for it.
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

/// The namespace of a SriovIBNetwork's definition, and the resource that a pod needs for it.
pub fn ib_resource_request(network: &SriovIBNetwork, prefix: &str) -> Option<(String, ResourceRequest)> {
    let definition = ib_definition::desired(network, prefix).ok()?.definition;
    let resource = definition.annotations.get(ferroband_api::annotation::RESOURCE_NAME)?.clone();
    Some((definition.namespace, ResourceRequest { resource, shared: false }))
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupNetwork {
    /// Namespace of the definition.
    pub namespace: String,
    /// Name of the definition.
    pub name: String,
    /// The resource that a pod needs for it.
    pub request: Option<ResourceRequest>,
}

/// The networks of all configs of a group, or the invalid config and its error. One invalid config fails the group: a
/// pod with only some of its rails would be worse than no pod.
pub fn group_networks(
    caches: &NetworkCaches,
    key: &str,
    value: &str,
) -> Result<Vec<GroupNetwork>, (String, NetworkSpecError)> {
    let mut networks = Vec::new();
    for ((namespace, name), config) in caches.spider_configs.list() {
        if config.metadata.deletion_timestamp.is_some()
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

/// The annotation with the name of a config's definition. It must not change.
pub fn definition_name_annotation(config: &SpiderMultusConfig) -> Option<&String> {
    config.annotations().get(spider_definition::NAME_ANNOTATION)
}
