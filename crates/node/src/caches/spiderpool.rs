//! What Spiderpool's way of choosing addresses looks at: pools, reservations, namespaces, this node's labels.
//!
//! A cluster need not have these kinds. Only networks that leave their addresses to Spiderpool wait for them.

use super::watch_cache::{ObjectKey, WatchCache, map_event, watch_forever};
use crate::{Error, api_call::with_timeout};
use ferroband_address::spiderpool::{IpPool, PerFamily, PodNic, PoolSelectionContext};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderReservedIP};
use ferroband_daemon::addresses::{parse_pool, reserved_ranges};
use ferroband_model::{Fault, FaultCode};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::watcher,
};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::warn;

/// How long a network waits for kinds that may not be defined.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool, or what is wrong with it.
pub type ParsedIpPool = Result<Arc<IpPool>, ferroband_address::Error>;

/// Labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelsAndAnnotations {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations of Spiderpool.
    pub annotations: BTreeMap<String, String>,
}

/// The caches.
#[derive(Clone)]
pub struct SpiderpoolCache {
    node: String,
    pools: Arc<WatchCache<ParsedIpPool>>,
    reserved: Arc<WatchCache<Vec<(IpAddr, IpAddr)>>>,
    namespaces: Arc<WatchCache<LabelsAndAnnotations>>,
    node_objects: Arc<WatchCache<LabelsAndAnnotations>>,
    client: Client,
}

impl SpiderpoolCache {
    /// Nothing yet.
    pub fn new(client: Client, node: String) -> Self {
        let (pools, reserved, namespaces, own) = Default::default();
        Self { node, pools, reserved, namespaces, node_objects: own, client }
    }

    /// The pools, to fill.
    #[cfg(test)]
    pub fn pools(&self) -> &WatchCache<ParsedIpPool> {
        &self.pools
    }

    /// Say that everything has been listed, as tests do.
    #[cfg(test)]
    pub fn mark_synced(&self) {
        use kube::runtime::watcher::Event;
        self.pools.apply(Event::InitDone);
        self.reserved.apply(Event::InitDone);
        self.namespaces.apply(Event::InitDone);
        self.node_objects.apply(Event::InitDone);
    }

    /// Follow the pools.
    pub async fn watch_pools(self) {
        let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(self.client.clone());
        watch_forever("SpiderIPPools", api, watcher::Config::default(), |event| {
            self.pools.apply(map_event(event, map_pool));
        })
        .await;
    }

    /// Follow the reservations.
    pub async fn watch_reserved(self) {
        let api: Api<DeserializeGuard<SpiderReservedIP>> = Api::all(self.client.clone());
        watch_forever("SpiderReservedIPs", api, watcher::Config::default(), |event| {
            self.reserved.apply(map_event(event, |object: DeserializeGuard<SpiderReservedIP>| {
                let name = (String::new(), object.name_any());
                let read = object.0.map_err(|e| e.error);
                let read = read.and_then(|object| reserved_ranges(&object).map_err(|e| e.to_string()));
                let told = read.inspect_err(|error| warn!(reserved = name.1, error, "cannot be used"));
                (name, told.ok())
            }));
        })
        .await;
    }

    /// Follow the namespaces.
    pub async fn watch_namespaces(self) {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
        watch_forever("namespaces", api, watcher::Config::default(), |event| {
            self.namespaces.apply(map_event(event, labels_and_annotations));
        })
        .await;
    }

    /// Follow this node's object.
    pub async fn watch_node(self) {
        let api: Api<PartialObjectMeta<Node>> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        watch_forever("this node", api, config, |event| {
            self.node_objects.apply(map_event(event, labels_and_annotations));
        })
        .await;
    }

    /// What is known now, for a pod in `namespace`.
    pub async fn selection_input(
        &self,
        namespace: &str,
        homes: Vec<String>,
    ) -> Result<PoolSelectionInput, Fault> {
        let complete = async {
            self.pools.wait_synced().await;
            self.reserved.wait_synced().await;
            self.namespaces.wait_synced().await;
            self.node_objects.wait_synced().await;
        };
        timeout(SYNC_TIMEOUT, complete).await.map_err(|_| self.not_synced_fault())?;
        // A namespace that was made a moment before the pod.
        let known = self.namespaces.wait_for("", namespace, Duration::from_secs(1), |_| true).await;
        let pools = self.pools.list().into_iter().map(|((_, name), pool)| (name, (*pool).clone()));
        let reserved = self.reserved.list();
        Ok(PoolSelectionInput {
            node: self.node.clone(),
            node_metadata: self.node_objects.get("", &self.node).as_deref().cloned().unwrap_or_default(),
            namespace: namespace.to_owned(),
            namespace_metadata: known.as_deref().cloned().unwrap_or_default(),
            pools: pools.collect(),
            reserved: reserved.iter().flat_map(|(_, windows)| windows.iter().copied()).collect(),
            network_namespaces: homes,
        })
    }

    /// The same with the pools as they are in the API server: one may have been made a moment before the pod.
    pub async fn with_fresh_pools(&self, around: PoolSelectionInput) -> Result<PoolSelectionInput, Fault> {
        let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(self.client.clone());
        let listed = with_timeout(api.list(&ListParams::default())).await.map_err(|e| {
            Error::Api { action: "list", object: "SpiderIPPools".into(), source: Box::new(e) }.fault()
        })?;
        let pools = listed.items.into_iter().map(map_pool);
        let pools = pools.filter_map(|((_, name), pool)| Some((name, pool?))).collect();
        Ok(PoolSelectionInput { pools, ..around })
    }

    fn not_synced_fault(&self) -> Fault {
        let what = if !self.pools.is_synced() {
            "SpiderIPPools"
        } else if !self.reserved.is_synced() {
            "SpiderReservedIPs"
        } else {
            "namespaces and nodes"
        };
        Fault::new(
            FaultCode::ApiUnavailable,
            "node daemon",
            format!("the API server has not yet sent the {what}"),
            "the pod is tried again by itself; check that the API server is up and `ferroband crds apply` was run",
        )
    }
}

fn map_pool(object: DeserializeGuard<SpiderIPPool>) -> (ObjectKey, Option<ParsedIpPool>) {
    let name = object.name_any();
    let reading = match object.0 {
        Ok(pool) => parse_pool(&pool).map(Arc::new),
        Err(e) => Err(ferroband_address::Error::InvalidPool {
            pool: name.clone(),
            field: "spec".into(),
            cause: e.error,
        }),
    };
    if let Err(error) = &reading {
        warn!(pool = name, %error, "cannot be used");
    }
    ((String::new(), name), Some(reading))
}

fn labels_and_annotations<K>(object: PartialObjectMeta<K>) -> (ObjectKey, Option<LabelsAndAnnotations>)
where
    K: kube::Resource<DynamicType = ()>,
{
    let name = (String::new(), object.name_any());
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| key.starts_with("ipam.spidernet.io/"));
    (name, Some(LabelsAndAnnotations { labels: object.metadata.labels.unwrap_or_default(), annotations }))
}

/// What a choice of pools is made from, besides the pod.
#[derive(Clone, Debug, Default)]
pub struct PoolSelectionInput {
    node: String,
    node_metadata: LabelsAndAnnotations,
    namespace: String,
    namespace_metadata: LabelsAndAnnotations,
    pools: BTreeMap<String, ParsedIpPool>,
    reserved: Vec<(IpAddr, IpAddr)>,
    network_namespaces: Vec<String>,
}

impl PoolSelectionInput {
    /// With a pod of these annotations and labels in the middle.
    pub fn for_pod<'a>(
        &'a self,
        annotations: &'a BTreeMap<String, String>,
        labels: &'a BTreeMap<String, String>,
    ) -> PoolSelectionContext<'a> {
        PoolSelectionContext {
            pod_annotations: annotations,
            pod_labels: labels,
            namespace: &self.namespace,
            namespace_annotations: &self.namespace_metadata.annotations,
            namespace_labels: &self.namespace_metadata.labels,
            node: &self.node,
            node_labels: &self.node_metadata.labels,
            pools: &self.pools,
            reserved: &self.reserved,
            enabled: PerFamily { v4: true, v6: true },
            network_namespaces: &self.network_namespaces,
        }
    }
}

/// An interface of a pod, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpiderpoolInterface {
    /// Its name.
    pub name: String,
    /// Which of the pod's it is.
    pub position: usize,
    /// Its network.
    pub network: Option<String>,
}

impl SpiderpoolInterface {
    /// As the engine wants it.
    pub fn as_nic(&self) -> PodNic<'_> {
        PodNic { interface: &self.name, position: self.position, network: self.network.as_deref() }
    }
}
