//! The objects that tell how things are, read once each.

use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_api::ferroband::AddressGranule;
use ferroband_api::spiderpool::SpiderIPPool;
use ferroband_api::sriov::SriovNetworkNodeState;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// What the API server holds that matters here.
#[derive(Debug, Default)]
pub struct Seen {
    /// All pods.
    pub pods: Vec<Pod>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// The leases called `ferroband-cluster`.
    pub leases: Vec<Lease>,
    /// Warnings of the node daemons about pods.
    pub events: Vec<Event>,
    /// The networks.
    pub networks: Vec<NetworkAttachmentDefinition>,
    /// The addresses.
    pub granules: Vec<AddressGranule>,
    /// The pools.
    pub pools: Vec<SpiderIPPool>,
    /// What the nodes say of their functions.
    pub states: Vec<SriovNetworkNodeState>,
    /// What could not be read, and why.
    pub unseen: Vec<String>,
}

impl Seen {
    /// Ask the API server. Pods and nodes must be readable; the rest is told as unseen where it is not.
    pub async fn of(client: &Client) -> kube::Result<Self> {
        let everything = ListParams::default();
        let mut seen = Self {
            pods: Api::all(client.clone()).list(&everything).await?.items,
            nodes: Api::all(client.clone()).list(&everything).await?.items,
            ..Self::default()
        };
        let leases = ListParams::default().fields("metadata.name=ferroband-cluster");
        let warnings = ListParams::default().fields("type=Warning,involvedObject.kind=Pod");
        seen.leases = seen.listed(client, &leases, "leases").await;
        seen.events = seen.listed(client, &warnings, "events").await;
        seen.events.retain(|event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            source.or(event.reporting_component.as_deref()).is_some_and(|from| from.starts_with("ferroband"))
        });
        seen.networks = seen.listed(client, &everything, "network-attachment-definitions").await;
        seen.granules = seen.listed(client, &everything, "addressgranules").await;
        seen.pools = seen.listed(client, &everything, "spiderippools").await;
        seen.states = seen.listed(client, &everything, "sriovnetworknodestates").await;
        Ok(seen)
    }

    async fn listed<K>(&mut self, client: &Client, which: &ListParams, what: &str) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        match Api::<K>::all(client.clone()).list(which).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.unseen.push(format!("{what}: no such kind in this cluster; run `ferroband crds apply`"));
                Vec::new()
            }
            Err(error) => {
                self.unseen.push(format!("{what}: {error}"));
                Vec::new()
            }
        }
    }
}
