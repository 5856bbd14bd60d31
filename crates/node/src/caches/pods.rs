//! Cache of the pods of this node.

use crate::Error;
use crate::api_call::with_timeout;
use ferroband_daemon::addresses::is_stateful;
use ferroband_daemon::watch_cache::ObjectKey;
use ferroband_daemon::{SharedCache, WatchCache, map_event, watch_forever};
use ferroband_model::PodRef;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the watch event of a pod that the runtime already knows.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Prefixes of the annotations that the cache keeps.
const ANNOTATION_PREFIXES: [&str; 4] =
    ["k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "kubernetes.io/config.", "ipam.spidernet.io/"];

/// The metadata of a pod that the daemon needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// UID in the API server. For a static pod, the runtime uses another UID.
    pub uid: String,
    /// Annotations that select networks or mark static pods.
    pub annotations: BTreeMap<String, String>,
    /// Labels, by which Spiderpool's address pools may select pods.
    pub labels: BTreeMap<String, String>,
    /// Whether a StatefulSet controls the pod. Such a pod keeps its name and its addresses when it is recreated.
    pub stateful: bool,
    pub terminating: bool,
}

impl PodFacts {
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

    /// Whether this is a static pod of the kubelet. The runtime knows a static pod by another UID than the API
    /// server.
    pub fn is_static(&self) -> bool {
        self.annotations.get("kubernetes.io/config.source").is_some_and(|source| source != "api")
            || self.annotations.contains_key("kubernetes.io/config.mirror")
    }
}

/// The pods of this node. Pods that are not in the cache are read from the API server.
#[derive(Clone)]
pub struct NodePodCache {
    cache: SharedCache<PodFacts>,
    owners: SharedCache<PodOwner>,
    client: Client,
}

impl NodePodCache {
    /// Creates an empty cache, which `watch` fills.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), owners: Arc::default(), client }
    }

    pub fn cache(&self) -> &WatchCache<PodFacts> {
        &self.cache
    }

    pub fn shared_cache(&self) -> SharedCache<PodFacts> {
        self.cache.clone()
    }

    /// The UIDs and controllers of the pods of this node.
    pub fn owners(&self) -> &SharedCache<PodOwner> {
        &self.owners
    }

    /// Watches the pods of `node`. Never returns. Only metadata is transferred, because spec and status would be
    /// most of the traffic.
    pub async fn watch(self, node: String) {
        let api: Api<PartialObjectMeta<Pod>> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        watch_forever("pods of this node", api, config, |event: Event<PartialObjectMeta<Pod>>| {
            self.owners.apply(reduce(event.clone(), PodOwner::from_metadata));
            self.cache.apply(reduce(event, PodFacts::from_metadata));
        })
        .await;
    }

    /// Returns the pod from the cache if it appears there within a second. Otherwise reads it once from the API
    /// server. Returns `None` if the pod does not exist.
    pub async fn find(&self, pod: &PodRef) -> Result<Option<Arc<PodFacts>>, Error> {
        // A StatefulSet may have recreated the pod while the cache still has its predecessor, which has
        // another UID.
        let matches =
            |pod_facts: &PodFacts| pod.uid.is_empty() || pod_facts.uid == pod.uid || pod_facts.is_static();
        if let Some(pod_facts) = self.cache.wait_for(&pod.namespace, &pod.name, EVENT_TIMEOUT, matches).await
        {
            return Ok(Some(pod_facts));
        }
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let found =
            with_timeout(api.get_opt(&pod.name)).await.map_err(Error::api("get", format!("pod {pod}")))?;
        Ok(found.map(|object| Arc::new(PodFacts::from_metadata(object.metadata))))
    }
}

fn reduce<V>(
    event: Event<PartialObjectMeta<Pod>>,
    convert: fn(ObjectMeta) -> V,
) -> Event<(ObjectKey, Option<V>)> {
    let convert_object = |object: PartialObjectMeta<Pod>| {
        let name = (object.namespace().unwrap_or_default(), object.name_any());
        (name, Some(convert(object.metadata)))
    };
    map_event(event, convert_object)
}

/// A pod's UID and controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOwner {
    pub uid: String,
    /// API version, kind and name of the controlling owner; `None` if the pod has none.
    pub controller: Option<(String, String, String)>,
}

impl PodOwner {
    pub fn from_metadata(metadata: ObjectMeta) -> Self {
        let owners = metadata.owner_references.unwrap_or_default();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            uid: metadata.uid.unwrap_or_default(),
            controller: controller.map(|owner| (owner.api_version, owner.kind, owner.name)),
        }
    }
}
