//! Objects that Spiderpool's pool selection uses: pools, reservations, namespaces, this node's labels.
//!
//! SpiderIPPools are read as the copies that the leader writes. Their own status changes with every pod of the cluster.
//!
//! A cluster may lack these CRDs. Only networks that use Spiderpool IPAM wait for them.

use ferroband_address::spiderpool::{IpPool, PerFamily, PodNic, PoolSelectionContext};
use ferroband_api::{ferroband::SpiderPoolCopy, spiderpool::SpiderReservedIP};
use ferroband_daemon::{
    SharedCache,
    addresses::{parse_pool_copy, reserved_ranges},
    decoded, named, reflect,
};
use ferroband_model::{Fault, FaultCode};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::watcher,
};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::warn;

/// How long an ADD with Spiderpool IPAM waits for the caches. They never sync if the CRDs are not installed.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an ADD waits for a pool that may have been created just before the pod. The leader copies it within this
/// time.
const NEW_POOL_TIMEOUT: Duration = Duration::from_secs(2);

/// A parsed SpiderIPPool, or why it is invalid.
pub type ParsedIpPool = Result<Arc<IpPool>, ferroband_address::Error>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelsAndAnnotations {
    pub labels: BTreeMap<String, String>,
    /// Only annotations with the prefix `ipam.spidernet.io/`.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone)]
pub struct SpiderpoolCache {
    node: String,
    pools: SharedCache<ParsedIpPool>,
    reserved: SharedCache<Vec<(IpAddr, IpAddr)>>,
    namespaces: SharedCache<LabelsAndAnnotations>,
    node_objects: SharedCache<LabelsAndAnnotations>,
    client: Client,
}

impl SpiderpoolCache {
    /// Creates empty caches, which the `watch_` methods fill.
    pub fn new(client: Client, node: String) -> Self {
        let (pools, reserved, namespaces, node_objects) = Default::default();
        Self { node, pools, reserved, namespaces, node_objects, client }
    }

    #[cfg(test)]
    pub fn pools(&self) -> &SharedCache<ParsedIpPool> {
        &self.pools
    }

    /// Marks all caches as synced, so that a test does not wait for the watches.
    #[cfg(test)]
    pub fn mark_synced(&self) {
        use kube::runtime::watcher::Event;
        self.pools.apply(Event::InitDone);
        self.reserved.apply(Event::InitDone);
        self.namespaces.apply(Event::InitDone);
        self.node_objects.apply(Event::InitDone);
    }

    pub async fn watch_pools(self) {
        let api = Api::all(self.client);
        let reduce = |object| Some(parse_guarded(object));
        reflect("SpiderPoolCopies", api, watcher::Config::default(), self.pools, reduce).await;
    }

    pub async fn watch_reserved(self) {
        let (what, api) = ("SpiderReservedIPs", Api::all(self.client));
        let reduce = |object: SpiderReservedIP| {
            let invalid =
                |error: &_| warn!(reserved = object.name_any(), error = %error, "invalid SpiderReservedIP");
            reserved_ranges(&object).inspect_err(invalid).ok()
        };
        reflect(what, api, watcher::Config::default(), self.reserved, decoded(what, reduce)).await;
    }

    pub async fn watch_namespaces(self) {
        let (api, all) = (Api::all(self.client), watcher::Config::default());
        reflect("namespaces", api, all, self.namespaces, labels_and_annotations::<Namespace>).await;
    }

    pub async fn watch_node(self) {
        let config = named(&self.node);
        let (what, api) = ("Node object of this node", Api::all(self.client));
        reflect(what, api, config, self.node_objects, labels_and_annotations::<Node>).await;
    }

    /// Collects the input of pool selection for a pod in `namespace`. Fails if the caches are not synced within
    /// five seconds, for example because the CRDs are not installed.
    pub async fn selection_input(
        &self,
        namespace: &str,
        network_namespaces: Vec<String>,
    ) -> Result<PoolSelectionInput, Fault> {
        let synced = async {
            self.pools.wait_synced().await;
            self.reserved.wait_synced().await;
            self.namespaces.wait_synced().await;
            self.node_objects.wait_synced().await;
        };
        timeout(SYNC_TIMEOUT, synced).await.map_err(|_| self.not_synced_fault())?;
        // The namespace may have been created just before the pod, so wait for its watch event.
        let metadata = self.namespaces.wait_for("", namespace, Duration::from_secs(1), |_| true).await;
        let reserved = self.reserved.list();
        Ok(PoolSelectionInput {
            node: self.node.clone(),
            node_metadata: self.node_objects.get("", &self.node).as_deref().cloned().unwrap_or_default(),
            namespace: namespace.to_owned(),
            namespace_metadata: metadata.as_deref().cloned().unwrap_or_default(),
            pools: self.parsed_pools(),
            reserved: reserved.iter().flat_map(|(_, ranges)| ranges.iter().copied()).collect(),
            network_namespaces,
        })
    }

    /// Replaces the pools in `input` with those that are cached after the next change, because a pool may have been
    /// created just before the pod. Returns `None` if nothing changes in time.
    pub async fn with_changed_pools(&self, input: PoolSelectionInput) -> Option<PoolSelectionInput> {
        let mut changes = self.pools.changes();
        // The cache may have changed since `input` was read.
        let mut pools = self.parsed_pools();
        if pools == input.pools {
            timeout(NEW_POOL_TIMEOUT, changes.changed()).await.ok()?.ok()?;
            pools = self.parsed_pools();
        }
        Some(PoolSelectionInput { pools, ..input })
    }

    fn parsed_pools(&self) -> BTreeMap<String, ParsedIpPool> {
        self.pools.list().into_iter().map(|((_, name), pool)| (name, (*pool).clone())).collect()
    }

    fn not_synced_fault(&self) -> Fault {
        let what = if !self.pools.is_synced() {
            "SpiderPoolCopies"
        } else if !self.reserved.is_synced() {
            "SpiderReservedIPs"
        } else {
            "namespaces and nodes"
        };
        Fault::new(
            FaultCode::ApiUnavailable,
            "node daemon",
            format!("the caches of {what} are not synced yet"),
            "no action needed, the pod is retried automatically; check that the API server is up and that the CRDs are \
             installed (`ferroband crds apply`)",
        )
    }
}

fn parse_guarded(object: DeserializeGuard<SpiderPoolCopy>) -> ParsedIpPool {
    let name = object.name_any();
    let parsed = match object.0 {
        Ok(copy) => parse_pool_copy(&copy).map(Arc::new),
        Err(e) => Err(ferroband_address::Error::InvalidPool {
            pool: name.clone(),
            field: "spec".into(),
            cause: e.error,
        }),
    };
    if let Err(error) = &parsed {
        warn!(pool = name, %error, "invalid SpiderIPPool");
    }
    parsed
}

fn labels_and_annotations<K>(object: PartialObjectMeta<K>) -> Option<LabelsAndAnnotations> {
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| key.starts_with("ipam.spidernet.io/"));
    Some(LabelsAndAnnotations { labels: object.metadata.labels.unwrap_or_default(), annotations })
}

/// Input of Spiderpool's pool selection, apart from the annotations and labels of the pod.
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
    /// Combines this input with the annotations and labels of a pod.
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

/// An interface of a pod. It owns its strings, which [`PodNic`] borrows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpiderpoolInterface {
    pub name: String,
    /// Index of the interface among the pod's interfaces. The interface of the default network has index 0.
    pub position: usize,
    pub network: Option<String>,
}

impl SpiderpoolInterface {
    pub fn as_nic(&self) -> PodNic<'_> {
        PodNic { interface: &self.name, position: self.position, network: self.network.as_deref() }
    }
}
