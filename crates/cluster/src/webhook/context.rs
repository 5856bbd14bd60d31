//! Gives the webhook's handlers access to networks and settings.

use crate::{
    ControllerContext, Error,
    networks::{
        GroupNetwork, NetworkCaches, NetworkSpecError, ResourceRequest, config_resource_request,
        group_networks, ib_resource_request,
    },
};
use ferroband_address::{IpSpace, SPACE_LABEL, space_label};
use ferroband_api::{
    cncf::NetworkAttachmentDefinition, ferroband::AddressBlock, spiderpool::SpiderMultusConfig,
    sriov::SriovIBNetwork,
};
use ferroband_daemon::{addresses::block_from_object, api_call::with_timeout};
use kube::{Api, ResourceExt, api::ListParams};
use std::net::IpAddr;

/// Looks up networks in the caches, and in the API server if the caches do not have them yet.
pub struct WebhookContext {
    context: ControllerContext,
    caches: NetworkCaches,
}

impl WebhookContext {
    pub fn new(context: &ControllerContext, caches: &NetworkCaches) -> Self {
        Self { context: context.clone(), caches: caches.clone() }
    }

    /// Whether the network caches have received the objects that existed when their watches started.
    pub fn is_ready(&self) -> bool {
        let caches = &self.caches;
        caches.definitions.is_synced()
            && caches.spider_configs.is_synced()
            && caches.namespace_groups.is_synced()
    }

    /// Returns key and value of the annotation that assigns a network group to the pods of the namespace.
    pub fn namespace_group(&self, namespace: &str) -> Option<(&'static str, String)> {
        self.caches.namespace_groups.get("", namespace).and_then(|group| (*group).clone())
    }

    /// Returns the networks of a group for a pod in `namespace`: those in the pod's namespace and in trusted ones. Every
    /// tenant can put a config into a group of any name. If a config is invalid, returns that config and its error.
    pub fn group_networks(
        &self,
        namespace: &str,
        group: (&str, &str),
    ) -> Result<Vec<GroupNetwork>, (String, NetworkSpecError)> {
        let tenants = &self.context.settings.tenants;
        group_networks(&self.caches, group, |of| of == namespace || tenants.is_trusted(of))
    }

    /// Returns the resource that a pod must request for a network, if any. The outer `None` means that there is no
    /// such network.
    ///
    /// A pod may be created right after its network. A definition that is not in the cache is therefore read from the
    /// API server. If it does not exist there either, because it is not generated yet, the SpiderMultusConfig or
    /// SriovIBNetwork is used.
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
            if let Some((definition_name, request)) = config_resource_request(&object)
                && definition_name == name
            {
                return Some(request);
            }
        }
        let prefix = &self.context.settings.resource_prefix;
        let mut networks = self.caches.ib_networks.list().into_iter();
        networks.find_map(|(_, network): (_, std::sync::Arc<SriovIBNetwork>)| {
            // The definition has the name of its network. Others are not rendered.
            if network.name_any() != name {
                return None;
            }
            let (definition_namespace, request) = ib_resource_request(&network, prefix)?;
            (definition_namespace == namespace).then_some(Some(request))
        })
    }

    /// Returns the pod that has an address of the SpiderIPPool `pool` for which `is_removed` is true, if any. Reads the
    /// address blocks: the status of the pool may list no addresses, or lag behind.
    pub async fn find_address_user(
        &self,
        pool: &str,
        is_removed: impl Fn(IpAddr) -> bool,
    ) -> Result<Option<(IpAddr, String)>, Error> {
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        let space = IpSpace::default_space();
        let in_space = ListParams::default().labels(&format!("{SPACE_LABEL}={}", space_label(&space)));
        let listed = with_timeout(api.list(&in_space)).await.map_err(Error::api("list", "AddressBlocks"))?;
        for object in &listed.items {
            // A block that cannot be read assigns nothing, and its nodes report it.
            let Ok((block, _)) = block_from_object(object) else { continue };
            let mut entries =
                block.entries.iter().filter(|(_, entry)| block.space == space && entry.pool == pool);
            let found = entries.find(|(offset, _)| is_removed(block.address(**offset)));
            if let Some((offset, entry)) = found {
                return Ok(Some((block.address(*offset), entry.pod.clone())));
            }
        }
        Ok(None)
    }

    pub fn settings(&self) -> &crate::ClusterSettings {
        &self.context.settings
    }
}
