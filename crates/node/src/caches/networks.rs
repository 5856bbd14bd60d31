//! Cache of network attachment definitions.

use crate::{Error, api_call::with_timeout};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_daemon::{SharedCache, WatchCache, decoded, reflect};
use kube::{Api, Client, runtime::watcher};
use std::sync::Arc;

#[derive(Clone)]
pub struct NetworkDefinitionCache {
    cache: SharedCache<NetworkAttachmentDefinition>,
    client: Client,
}

impl NetworkDefinitionCache {
    /// Creates an empty cache, which `watch` fills.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), client }
    }

    pub fn cache(&self) -> &WatchCache<NetworkAttachmentDefinition> {
        &self.cache
    }

    /// Keeps the cache in sync with all definitions in the cluster. Never returns.
    pub async fn watch(self) {
        let what = "network attachment definitions";
        let (api, all) = (Api::all(self.client), watcher::Config::default());
        reflect(what, api, all, self.cache, decoded(what, Some::<NetworkAttachmentDefinition>)).await;
    }

    /// Returns the definition from the cache. If it is not there, reads it from the API server, because it may have
    /// been created just before the pod. Returns `None` if it does not exist.
    pub async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<NetworkAttachmentDefinition>>, Error> {
        if let Some(definition) = self.cache.get(namespace, name) {
            return Ok(Some(definition));
        }
        let api: Api<NetworkAttachmentDefinition> = Api::namespaced(self.client.clone(), namespace);
        let failed = Error::api("get", format!("NetworkAttachmentDefinition {namespace}/{name}"));
        Ok(with_timeout(api.get_opt(name)).await.map_err(failed)?.map(Arc::new))
    }
}
