//! What a pod must ask the kubelet for to get a network.

use super::{NetworkCaches, NetworkSpecError, ib_definition, spider_definition};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use kube::ResourceExt;

/// A resource that a network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Its name.
    pub resource: String,
    /// Whether one unit serves any number of networks: the device is shared anyway.
    pub shared: bool,
}

/// The name of a config's definition, and what a pod needs for it.
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

/// The namespace of an InfiniBand network's definition, and what a pod needs for it.
pub fn ib_resource_request(network: &SriovIBNetwork, prefix: &str) -> Option<(String, ResourceRequest)> {
    let definition = ib_definition::desired(network, prefix).ok()?.definition;
    let resource = definition.annotations.get(ferroband_api::annotation::RESOURCE_NAME)?.clone();
    Some((definition.namespace, ResourceRequest { resource, shared: false }))
}

/// A network of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNetwork {
    /// Namespace of its definition.
    pub namespace: String,
    /// Name of its definition.
    pub name: String,
    /// What a pod needs for it.
    pub request: Option<ResourceRequest>,
}

/// The definitions of all configs of a group, or the config that is wrong and why. A config that is wrong fails the group: a pod
/// with some of its rails would be worse than none.
pub fn group_networks(
    sources: &NetworkCaches,
    key: &str,
    value: &str,
) -> Result<Vec<GroupNetwork>, (String, NetworkSpecError)> {
    let mut found = Vec::new();
    for ((namespace, name), config) in sources.spider_configs.list() {
        if config.metadata.deletion_timestamp.is_some()
            || !spider_definition::groups(&config).any(|group| group == (key, value))
        {
            continue;
        }
        let wanted = spider_definition::desired(&config)
            .map_err(|refused| (format!("SpiderMultusConfig {namespace}/{name}"), refused))?;
        let need = config_resource_request(&config).and_then(|(_, need)| need);
        found.push(GroupNetwork { namespace, name: wanted.definition.name, request: need });
    }
    Ok(found)
}

/// Where a config says what its definition is called: it may not change.
pub fn definition_name_annotation(config: &SpiderMultusConfig) -> Option<&String> {
    config.annotations().get(spider_definition::NAME_ANNOTATION)
}
