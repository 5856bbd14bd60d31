//! What is known about networks when a pod asks.

use crate::{
    Context,
    networks::{Member, Need, Refused, Sources, config_need, group_members, ib_need},
};
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork,
};
use ferroband_daemon::call::bounded;
use kube::{Api, ResourceExt};

/// The caches, and the API server for what they do not have yet.
pub struct World {
    context: Context,
    sources: Sources,
}

impl World {
    /// Of this replica.
    pub fn new(context: &Context, sources: &Sources) -> Self {
        Self { context: context.clone(), sources: sources.clone() }
    }

    /// Whether the caches are worth asking.
    pub fn is_known(&self) -> bool {
        let sources = &self.sources;
        sources.definitions.is_complete() && sources.configs.is_complete() && sources.namespaces.is_complete()
    }

    /// The group of networks that the pods of a namespace get.
    pub fn group(&self, namespace: &str) -> Option<(&'static str, String)> {
        self.sources.namespaces.get("", namespace).and_then(|group| (*group).clone())
    }

    /// The networks of a group, or why one of them is none.
    pub fn members(&self, key: &str, value: &str) -> Result<Vec<Member>, (String, Refused)> {
        group_members(&self.sources, key, value)
    }

    /// What a pod needs for a network; `None` if there is no such network.
    ///
    /// A pod may come right behind its network: what the caches do not have is asked for, and a network whose definition
    /// is not made yet is known by its object.
    pub async fn need(&self, namespace: &str, name: &str) -> Option<Option<Need>> {
        let definition = match self.sources.definitions.get(namespace, name) {
            Some(known) => Some((*known).clone()),
            None => {
                let api: Api<NetworkAttachmentDefinition> =
                    Api::namespaced(self.context.client.clone(), namespace);
                bounded(api.get_opt(name)).await.ok().flatten()
            }
        };
        if let Some(definition) = definition {
            return Some(
                definition
                    .resource_name()
                    .map(|resource| Need { resource: resource.to_owned(), shared: false }),
            );
        }
        let config = |config: &SpiderMultusConfig| config.namespace().as_deref() == Some(namespace);
        let configs = self.sources.configs.all().into_iter().filter(|(_, object)| config(object));
        for (_, object) in configs {
            if let Some((called, need)) = config_need(&object)
                && called == name
            {
                return Some(need);
            }
        }
        let prefix = &self.context.settings.resource_prefix;
        let mut networks = self.sources.ib_networks.all().into_iter();
        networks.find_map(|(_, network): (_, std::sync::Arc<SriovIBNetwork>)| {
            let (there, need) = ib_need(&network, prefix)?;
            (there == namespace && network.name_any() == name).then_some(Some(need))
        })
    }

    /// How this daemon runs.
    pub fn settings(&self) -> &crate::Settings {
        &self.context.settings
    }
}
