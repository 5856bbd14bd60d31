//! What a pod must ask the kubelet for to get a network.

use super::{Refused, Sources, ib, spider};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use kube::ResourceExt;

/// A resource that a network needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its name.
    pub resource: String,
    /// Whether one unit serves any number of networks: the device is shared anyway.
    pub shared: bool,
}

/// The name of a config's definition, and what a pod needs for it.
pub fn config_need(config: &SpiderMultusConfig) -> Option<(String, Option<Need>)> {
    let name = spider::name(config).ok()?;
    let section = spider::Section::of(&config.spec, &mut Vec::new()).ok()?;
    let shared = !matches!(section, spider::Section::IbSriov(_) | spider::Section::Sriov(_));
    let resource = section.resource().ok()?;
    Some((name, resource.map(|resource| Need { resource: resource.to_string(), shared })))
}

/// The namespace of an InfiniBand network's definition, and what a pod needs for it.
pub fn ib_need(network: &SriovIBNetwork, prefix: &str) -> Option<(String, Need)> {
    let definition = ib::wanted(network, prefix).ok()?.definition;
    let resource = definition.annotations.get(ferroband_api::annotation::RESOURCE_NAME)?.clone();
    Some((definition.namespace, Need { resource, shared: false }))
}

/// A network of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Namespace of its definition.
    pub namespace: String,
    /// Name of its definition.
    pub name: String,
    /// What a pod needs for it.
    pub need: Option<Need>,
}

/// The definitions of all configs of a group, or the config that is wrong and why. A config that is wrong fails the group: a pod
/// with some of its rails would be worse than none.
pub fn group_members(sources: &Sources, key: &str, value: &str) -> Result<Vec<Member>, (String, Refused)> {
    let mut found = Vec::new();
    for ((namespace, name), config) in sources.configs.all() {
        if config.metadata.deletion_timestamp.is_some()
            || !spider::groups(&config).any(|group| group == (key, value))
        {
            continue;
        }
        let wanted = spider::wanted(&config)
            .map_err(|refused| (format!("SpiderMultusConfig {namespace}/{name}"), refused))?;
        let need = config_need(&config).and_then(|(_, need)| need);
        found.push(Member { namespace, name: wanted.definition.name, need });
    }
    Ok(found)
}

/// Where a config says what its definition is called: it may not change.
pub fn called(config: &SpiderMultusConfig) -> Option<&String> {
    config.annotations().get(spider::NAME)
}
