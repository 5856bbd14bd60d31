//! What Spiderpool's way of choosing addresses looks at: pools, reservations, namespaces, this node's labels.
//!
//! A cluster need not have these kinds. Only networks that leave their addresses to Spiderpool wait for them.

use super::watching::{Cache, Name, follow, map};
use crate::{Error, call::bounded};
use ferroband_address::spiderpool::{Family2, IpPool, Nic, Surroundings};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderReservedIP};
use ferroband_daemon::addresses::{read_pool, reserved_of};
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
const PATIENCE: Duration = Duration::from_secs(5);

/// A pool, or what is wrong with it.
pub type Reading = Result<Arc<IpPool>, ferroband_address::Error>;

/// Labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations of Spiderpool.
    pub annotations: BTreeMap<String, String>,
}

/// The caches.
#[derive(Clone)]
pub struct Spiderpool {
    node: String,
    pools: Arc<Cache<Reading>>,
    reserved: Arc<Cache<Vec<(IpAddr, IpAddr)>>>,
    namespaces: Arc<Cache<Marks>>,
    own: Arc<Cache<Marks>>,
    client: Client,
}

impl Spiderpool {
    /// Nothing yet.
    pub fn new(client: Client, node: String) -> Self {
        let (pools, reserved, namespaces, own) = Default::default();
        Self { node, pools, reserved, namespaces, own, client }
    }

    /// The pools, to fill.
    #[cfg(test)]
    pub fn pools(&self) -> &Cache<Reading> {
        &self.pools
    }

    /// Say that everything has been listed, as tests do.
    #[cfg(test)]
    pub fn complete(&self) {
        use kube::runtime::watcher::Event;
        self.pools.apply(Event::InitDone);
        self.reserved.apply(Event::InitDone);
        self.namespaces.apply(Event::InitDone);
        self.own.apply(Event::InitDone);
    }

    /// Follow the pools.
    pub async fn watch_pools(self) {
        let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(self.client.clone());
        follow("SpiderIPPools", api, watcher::Config::default(), |event| {
            self.pools.apply(map(event, read));
        })
        .await;
    }

    /// Follow the reservations.
    pub async fn watch_reserved(self) {
        let api: Api<DeserializeGuard<SpiderReservedIP>> = Api::all(self.client.clone());
        follow("SpiderReservedIPs", api, watcher::Config::default(), |event| {
            self.reserved.apply(map(event, |object: DeserializeGuard<SpiderReservedIP>| {
                let name = (String::new(), object.name_any());
                let read = object.0.map_err(|e| e.error);
                let read = read.and_then(|object| reserved_of(&object).map_err(|e| e.to_string()));
                let told = read.inspect_err(|error| warn!(reserved = name.1, error, "cannot be used"));
                (name, told.ok())
            }));
        })
        .await;
    }

    /// Follow the namespaces.
    pub async fn watch_namespaces(self) {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
        follow("namespaces", api, watcher::Config::default(), |event| {
            self.namespaces.apply(map(event, marks));
        })
        .await;
    }

    /// Follow this node's object.
    pub async fn watch_own(self) {
        let api: Api<PartialObjectMeta<Node>> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        follow("this node", api, config, |event| self.own.apply(map(event, marks))).await;
    }

    /// What is known now, for a pod in `namespace`.
    pub async fn around(&self, namespace: &str, homes: Vec<String>) -> Result<Around, Fault> {
        let complete = async {
            self.pools.complete().await;
            self.reserved.complete().await;
            self.namespaces.complete().await;
            self.own.complete().await;
        };
        timeout(PATIENCE, complete).await.map_err(|_| self.missing())?;
        // A namespace that was made a moment before the pod.
        let known = self.namespaces.await_object("", namespace, Duration::from_secs(1), |_| true).await;
        let pools = self.pools.all().into_iter().map(|((_, name), pool)| (name, (*pool).clone()));
        let reserved = self.reserved.all();
        Ok(Around {
            node: self.node.clone(),
            node_marks: self.own.get("", &self.node).as_deref().cloned().unwrap_or_default(),
            namespace: namespace.to_owned(),
            namespace_marks: known.as_deref().cloned().unwrap_or_default(),
            pools: pools.collect(),
            reserved: reserved.iter().flat_map(|(_, windows)| windows.iter().copied()).collect(),
            homes,
        })
    }

    /// The same with the pools as they are in the API server: one may have been made a moment before the pod.
    pub async fn reread(&self, around: Around) -> Result<Around, Fault> {
        let api: Api<DeserializeGuard<SpiderIPPool>> = Api::all(self.client.clone());
        let listed = bounded(api.list(&ListParams::default())).await.map_err(|e| {
            Error::Api { action: "list", object: "SpiderIPPools".into(), source: Box::new(e) }.fault()
        })?;
        let pools = listed.items.into_iter().map(read);
        let pools = pools.filter_map(|((_, name), pool)| Some((name, pool?))).collect();
        Ok(Around { pools, ..around })
    }

    fn missing(&self) -> Fault {
        let what = if !self.pools.is_complete() {
            "SpiderIPPools"
        } else if !self.reserved.is_complete() {
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

fn read(object: DeserializeGuard<SpiderIPPool>) -> (Name, Option<Reading>) {
    let name = object.name_any();
    let reading = match object.0 {
        Ok(pool) => read_pool(&pool).map(Arc::new),
        Err(e) => {
            Err(ferroband_address::Error::Pool { pool: name.clone(), field: "spec".into(), cause: e.error })
        }
    };
    if let Err(error) = &reading {
        warn!(pool = name, %error, "cannot be used");
    }
    ((String::new(), name), Some(reading))
}

fn marks<K>(object: PartialObjectMeta<K>) -> (Name, Option<Marks>)
where
    K: kube::Resource<DynamicType = ()>,
{
    let name = (String::new(), object.name_any());
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| key.starts_with("ipam.spidernet.io/"));
    (name, Some(Marks { labels: object.metadata.labels.unwrap_or_default(), annotations }))
}

/// What a choice of pools is made from, besides the pod.
#[derive(Clone, Debug, Default)]
pub struct Around {
    node: String,
    node_marks: Marks,
    namespace: String,
    namespace_marks: Marks,
    pools: BTreeMap<String, Reading>,
    reserved: Vec<(IpAddr, IpAddr)>,
    homes: Vec<String>,
}

impl Around {
    /// With a pod of these annotations and labels in the middle.
    pub fn pod<'a>(
        &'a self,
        annotations: &'a BTreeMap<String, String>,
        labels: &'a BTreeMap<String, String>,
    ) -> Surroundings<'a> {
        Surroundings {
            pod_annotations: annotations,
            pod_labels: labels,
            namespace: &self.namespace,
            namespace_annotations: &self.namespace_marks.annotations,
            namespace_labels: &self.namespace_marks.labels,
            node: &self.node,
            node_labels: &self.node_marks.labels,
            pools: &self.pools,
            reserved: &self.reserved,
            enabled: Family2 { v4: true, v6: true },
            homes: &self.homes,
        }
    }
}

/// An interface of a pod, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Which of the pod's it is.
    pub position: usize,
    /// Its network.
    pub network: Option<String>,
}

impl Interface {
    /// As the engine wants it.
    pub fn nic(&self) -> Nic<'_> {
        Nic { interface: &self.name, position: self.position, network: self.network.as_deref() }
    }
}
