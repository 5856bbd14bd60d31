//! The network attachment definitions.

use super::watch_cache::{ObjectKey, WatchCache, map_event, watch_forever};
use crate::{Error, api_call::with_timeout};
use ferroband_api::cncf::NetworkAttachmentDefinition;
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::sync::Arc;
use tracing::warn;

/// All network attachment definitions.
#[derive(Clone)]
pub struct NetworkDefinitionCache {
    cache: Arc<WatchCache<NetworkAttachmentDefinition>>,
    client: Client,
}

impl NetworkDefinitionCache {
    /// None yet.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), client }
    }

    /// The cache, for whoever waits for it to be complete.
    pub fn cache(&self) -> &WatchCache<NetworkAttachmentDefinition> {
        &self.cache
    }

    /// Follow them.
    pub async fn watch(self) {
        let api: Api<DeserializeGuard<NetworkAttachmentDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default();
        watch_forever("network attachment definitions", api, config, |event| self.cache.apply(reduce(event)))
            .await;
    }

    /// The definition, from the cache, else by one read: it may have been made a moment before the pod.
    pub async fn find(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<NetworkAttachmentDefinition>>, Error> {
        if let Some(known) = self.cache.get(namespace, name) {
            return Ok(Some(known));
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
            warn!(definition = format!("{}/{}", name.0, name.1), error = e.error, "cannot be read");
        }
        (name, definition.ok())
    })
}
