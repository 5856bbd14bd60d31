//! Reads and writes this node's SriovNetworkNodeState.

use crate::{
    Error, FIELD_MANAGER,
    api_call::{ApiFailure, classify, with_timeout},
};
use ferroband_api::sriov::{
    CURRENT_STATE, DESIRED_STATE, IDLE, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
    SriovNetworkNodeStateStatus,
};
use ferroband_daemon::{SharedCache, WatchCache, apply_status, merge_patch, named, reflect};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use std::sync::Arc;

#[derive(Clone)]
pub struct NodeStateObject {
    api: Api<SriovNetworkNodeState>,
    namespace: String,
    node: String,
    cache: SharedCache<SriovNetworkNodeState>,
}

impl NodeStateObject {
    pub fn new(client: Client, namespace: &str, node: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), node: node.to_owned(), cache: Arc::default() }
    }

    pub async fn watch(self) {
        let config = named(&self.node);
        reflect("SriovNetworkNodeState of this node", self.api, config, self.cache, Some).await;
    }

    pub fn cache(&self) -> &WatchCache<SriovNetworkNodeState> {
        &self.cache
    }

    /// Returns the object from the watch cache; `None` if it does not exist.
    pub fn get(&self) -> Option<Arc<SriovNetworkNodeState>> {
        self.cache.get(&self.namespace, &self.node)
    }

    /// Creates the object with an empty spec. It is no error if the object already exists.
    pub async fn create(&self) -> Result<(), Error> {
        let mut state = SriovNetworkNodeState::new(&self.node, SriovNetworkNodeStateSpec::default());
        let annotations = [DESIRED_STATE, CURRENT_STATE].map(|key| (key.to_owned(), IDLE.to_owned()));
        state.metadata.annotations = Some(annotations.into());
        match with_timeout(self.api.create(&PostParams::default(), &state)).await {
            Ok(_) => Ok(()),
            // The object exists, but the cache does not show it yet.
            Err(e) if classify(&e) == ApiFailure::Conflict => Ok(()),
            Err(e) => Err(self.api_error("create", e)),
        }
    }

    pub async fn write_status(&self, status: &SriovNetworkNodeStateStatus) -> Result<(), Error> {
        let written = apply_status(&self.api, FIELD_MANAGER, &self.node, status).await;
        written.map_err(|e| self.api_error("update the status of", e))
    }

    /// Sets the annotation by which the node requests a drain or reboot from the cluster controller.
    pub async fn set_desired_state(&self, desired: &str) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { DESIRED_STATE: desired } } });
        merge_patch(&self.api, &self.node, &patch).await.map_err(|e| self.api_error("annotate", e))
    }

    fn api_error(&self, action: &'static str, source: kube::Error) -> Error {
        Error::api(action, format!("SriovNetworkNodeState {}/{}", self.namespace, self.node))(source)
    }
}
