//! Cache of network attachment definitions.

use crate::{Error, api_call::with_timeout};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_daemon::{WatchCache, map_event, watch_cache::ObjectKey, watch_forever};
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::sync::Arc;
use tracing::warn;

#[derive(Clone)]
pub struct NetworkDefinitionCache {
    cache: Arc<WatchCache<NetworkAttachmentDefinition>>,
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
        let api: Api<DeserializeGuard<NetworkAttachmentDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default();
        watch_forever("network attachment definitions", api, config, |event| self.cache.apply(reduce(event)))
            .await;
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
        let found = with_timeout(api.get_opt(name)).await.map_err(|e| Error::Api {
            action: "get",
            object: format!("NetworkAttachmentDefinition {namespace}/{name}"),
            source: Box::new(e),
        })?;
        Ok(found.map(Arc::new))
    }
}

fn reduce(
    event: Event<DeserializeGuard<NetworkAttachmentDefinition>>,
) -> Event<(ObjectKey, Option<NetworkAttachmentDefinition>)> {
    map_event(event, |object| {
        let name = (object.namespace().unwrap_or_default(), object.name_any());
        let definition = object.0.map(|mut definition| {
            definition.metadata.managed_fields = None;
            definition
        });
        if let Err(e) = &definition {
            let definition = format!("{}/{}", name.0, name.1);
            warn!(definition, error = e.error, "cannot parse the network attachment definition");
        }
        (name, definition.ok())
    })
}
