//! The pods of this node.

use super::{
    owners::PodOwner,
    watch_cache::{ObjectKey, WatchCache, watch_forever},
};
use crate::{Error, api_call::with_timeout};
use ferroband_daemon::addresses::is_stateful;
use ferroband_model::PodRef;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    core::{ObjectMeta, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a pod that the runtime knows may take to be known here: its event is under way.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Annotations that matter here start with one of these.
const ANNOTATION_PREFIXES: [&str; 4] =
    ["k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "kubernetes.io/config.", "ipam.spidernet.io/"];

/// What is needed of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its UID in the API server.
    pub uid: String,
    /// The annotations that networks are chosen by, and those that mark static pods.
    pub annotations: BTreeMap<String, String>,
    /// Its labels: pools of addresses may be for certain pods.
    pub labels: BTreeMap<String, String>,
    /// Whether it belongs to a StatefulSet, so that its name stands for it over re-creations.
    pub stateful: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl PodFacts {
    /// What `metadata` says.
    pub fn from_metadata(metadata: ObjectMeta) -> Self {
        let stateful = is_stateful(&metadata);
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.retain(|name, _| {
            ANNOTATION_PREFIXES.iter().any(|start| name.starts_with(start))
                && !name.ends_with("/network-status")
        });
        Self {
            uid: metadata.uid.unwrap_or_default(),
            annotations,
            labels: metadata.labels.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
            stateful,
        }
    }

    /// Whether it comes from a file of the kubelet: the runtime then knows it by another UID.
    pub fn is_static(&self) -> bool {
        self.annotations.get("kubernetes.io/config.source").is_some_and(|source| source != "api")
            || self.annotations.contains_key("kubernetes.io/config.mirror")
    }
}

/// The pods of this node, and a way to ask for one that is not among them.
#[derive(Clone)]
pub struct NodePodCache {
    cache: Arc<WatchCache<PodFacts>>,
    owners: Arc<WatchCache<PodOwner>>,
    client: Client,
}

impl NodePodCache {
    /// No pod yet.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), owners: Arc::default(), client }
    }

    /// The cache, for whoever waits for it to be complete.
    pub fn cache(&self) -> &WatchCache<PodFacts> {
        &self.cache
    }

    /// The cache, for whoever looks pods up beside us.
    pub fn shared_cache(&self) -> Arc<WatchCache<PodFacts>> {
        self.cache.clone()
    }

    /// Who they belong to.
    pub fn owners(&self) -> &Arc<WatchCache<PodOwner>> {
        &self.owners
    }

    /// Follow the pods of `node`. Only metadata is sent: a pod's spec and status would be most of the traffic.
    pub async fn watch(self, node: String) {
        let api: Api<PartialObjectMeta<Pod>> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        watch_forever("pods of this node", api, config, |event: Event<PartialObjectMeta<Pod>>| {
            self.owners.apply(reduce(event.clone(), PodOwner::from_metadata));
            self.cache.apply(reduce(event, PodFacts::from_metadata));
        })
        .await;
    }

    /// The pod, from the cache if it comes there within a second, else by one read; `None` if there is none.
    pub async fn find(&self, pod: &PodRef) -> Result<Option<Arc<PodFacts>>, Error> {
        // A pod of a StatefulSet may have been made again, and its predecessor be what is still known.
        let meant = |facts: &PodFacts| pod.uid.is_empty() || facts.uid == pod.uid || facts.is_static();
        if let Some(facts) = self.cache.wait_for(&pod.namespace, &pod.name, EVENT_TIMEOUT, meant).await {
            return Ok(Some(facts));
        }
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let found = with_timeout(api.get_opt(&pod.name)).await.map_err(|e| Error::Api {
            action: "get",
            object: format!("pod {pod}"),
            source: Box::new(e),
        })?;
        Ok(found.map(|object| Arc::new(PodFacts::from_metadata(object.metadata))))
    }
}

fn reduce<V>(event: Event<PartialObjectMeta<Pod>>, of: fn(ObjectMeta) -> V) -> Event<(ObjectKey, Option<V>)> {
    let read = |object: PartialObjectMeta<Pod>| {
        let name = (object.namespace().unwrap_or_default(), object.name_any());
        (name, Some(of(object.metadata)))
    };
    super::watch_cache::map_event(event, read)
}
