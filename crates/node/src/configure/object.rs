//! This node's SriovNetworkNodeState: its spec is read, its status is written, and only when it says something new.

use crate::{
    Error,
    call::{Failure, bounded, failure},
};
use ferroband_api::sriov::{
    CURRENT_STATE, DESIRED_STATE, IDLE, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
    SriovNetworkNodeStateStatus,
};
use ferroband_daemon::watching::{Cache, follow, map};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;
use std::sync::Arc;

/// Who writes, for server-side apply.
const WRITER: &str = "ferroband-node";

/// The object.
#[derive(Clone)]
pub struct Object {
    api: Api<SriovNetworkNodeState>,
    namespace: String,
    node: String,
    cache: Arc<Cache<SriovNetworkNodeState>>,
}

impl Object {
    /// That of `node`.
    pub fn new(client: Client, namespace: &str, node: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, namespace: namespace.to_owned(), node: node.to_owned(), cache: Arc::default() }
    }

    /// Follow it.
    pub async fn watch(self) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let cache = self.cache.clone();
        follow("the node's state", self.api.clone(), config, move |event| {
            cache.apply(map(event, |state: SriovNetworkNodeState| {
                ((state.namespace().unwrap_or_default(), state.name_any()), Some(state))
            }));
        })
        .await;
    }

    /// The cache of it.
    pub fn cache(&self) -> &Cache<SriovNetworkNodeState> {
        &self.cache
    }

    /// As it is known.
    pub fn get(&self) -> Option<Arc<SriovNetworkNodeState>> {
        self.cache.get(&self.namespace, &self.node)
    }

    /// Make it, with nothing wanted.
    pub async fn create(&self) -> Result<(), Error> {
        let mut state = SriovNetworkNodeState::new(&self.node, SriovNetworkNodeStateSpec::default());
        let annotations = [DESIRED_STATE, CURRENT_STATE].map(|key| (key.to_owned(), IDLE.to_owned()));
        state.metadata.annotations = Some(annotations.into());
        match bounded(self.api.create(&PostParams::default(), &state)).await {
            Ok(_) => Ok(()),
            // The cache is behind.
            Err(e) if failure(&e) == Failure::Conflict => Ok(()),
            Err(e) => Err(self.failed("create", e)),
        }
    }

    /// Write the status.
    pub async fn tell(&self, status: &SriovNetworkNodeStateStatus) -> Result<(), Error> {
        let state = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
            "metadata": { "name": self.node }, "status": status,
        });
        let params = PatchParams::apply(WRITER).force();
        let told = bounded(self.api.patch_status(&self.node, &params, &Patch::Apply(&state))).await;
        told.map(drop).map_err(|e| self.failed("tell", e))
    }

    /// Say what is needed to go on.
    pub async fn desire(&self, desired: &str) -> Result<(), Error> {
        let patch = json!({ "metadata": { "annotations": { DESIRED_STATE: desired } } });
        let patch = Patch::Merge(&patch);
        let told = bounded(self.api.patch_metadata(&self.node, &PatchParams::default(), &patch)).await;
        told.map(drop).map_err(|e| self.failed("annotate", e))
    }

    fn failed(&self, action: &'static str, source: kube::Error) -> Error {
        let object = format!("SriovNetworkNodeState {}/{}", self.namespace, self.node);
        Error::Api { action, object, source: Box::new(source) }
    }
}
