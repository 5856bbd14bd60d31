//! What is known about networks when a pod asks.

use crate::{
    ControllerContext,
    networks::{
        GroupNetwork, NetworkCaches, NetworkSpecError, ResourceRequest, config_resource_request,
        group_networks, ib_resource_request,
    },
};
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork,
};
use ferroband_daemon::api_call::with_timeout;
use kube::{Api, ResourceExt};

/// The caches, and the API server for what they do not have yet.
pub struct WebhookContext {
    context: ControllerContext,
    caches: NetworkCaches,
}

impl WebhookContext {
    /// Of this replica.
    pub fn new(context: &ControllerContext, sources: &NetworkCaches) -> Self {
        Self { context: context.clone(), caches: sources.clone() }
    }

    /// Whether the caches are worth asking.
    pub fn is_ready(&self) -> bool {
        let sources = &self.caches;
        sources.definitions.is_synced()
            && sources.spider_configs.is_synced()
            && sources.namespace_groups.is_synced()
    }

    /// The group of networks that the pods of a namespace get.
    pub fn namespace_group(&self, namespace: &str) -> Option<(&'static str, String)> {
        self.caches.namespace_groups.get("", namespace).and_then(|group| (*group).clone())
    }

    /// The networks of a group, or why one of them is none.
    pub fn group_networks(
        &self,
        key: &str,
        value: &str,
    ) -> Result<Vec<GroupNetwork>, (String, NetworkSpecError)> {
        group_networks(&self.caches, key, value)
    }

    /// What a pod needs for a network; `None` if there is no such network.
    ///
    /// A pod may come right behind its network: what the caches do not have is asked for, and a network whose definition
    /// is not made yet is known by its object.
    pub async fn resource_request(&self, namespace: &str, name: &str) -> Option<Option<ResourceRequest>> {
        let definition = match self.caches.definitions.get(namespace, name) {
            Some(known) => Some((*known).clone()),
            None => {
                let api: Api<NetworkAttachmentDefinition> =
                    Api::namespaced(self.context.client.clone(), namespace);
                with_timeout(api.get_opt(name)).await.ok().flatten()
            }
        };
        if let Some(definition) = definition {
            return Some(
                definition
                    .resource_name()
                    .map(|resource| ResourceRequest { resource: resource.to_owned(), shared: false }),
            );
        }
        let config = |config: &SpiderMultusConfig| config.namespace().as_deref() == Some(namespace);
        let configs = self.caches.spider_configs.list().into_iter().filter(|(_, object)| config(object));
        for (_, object) in configs {
            if let Some((called, need)) = config_resource_request(&object)
                && called == name
            {
                return Some(need);
            }
        }
        let prefix = &self.context.settings.resource_prefix;
        let mut networks = self.caches.ib_networks.list().into_iter();
        networks.find_map(|(_, network): (_, std::sync::Arc<SriovIBNetwork>)| {
            let (there, need) = ib_resource_request(&network, prefix)?;
            (there == namespace && network.name_any() == name).then_some(Some(need))
        })
    }

    /// How this daemon runs.
    pub fn settings(&self) -> &crate::ClusterSettings {
        &self.context.settings
    }
}
