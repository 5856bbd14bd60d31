//! The objects that tell how things are, read once each.

use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_api::ferroband::AddressBlock;
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
pub struct ClusterObjects {
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
    pub blocks: Vec<AddressBlock>,
    /// The pools.
    pub pools: Vec<SpiderIPPool>,
    /// What the nodes say of their functions.
    pub states: Vec<SriovNetworkNodeState>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
}

impl ClusterObjects {
    /// Ask the API server. Pods and nodes must be readable; the rest is told as unseen where it is not.
    pub async fn read(client: &Client) -> kube::Result<Self> {
        let everything = ListParams::default();
        let mut seen = Self {
            pods: Api::all(client.clone()).list(&everything).await?.items,
            nodes: Api::all(client.clone()).list(&everything).await?.items,
            ..Self::default()
        };
        let leases = ListParams::default().fields("metadata.name=ferroband-cluster");
        let warnings = ListParams::default().fields("type=Warning,involvedObject.kind=Pod");
        seen.leases = seen.list_or_note(client, &leases, "leases").await;
        seen.events = seen.list_or_note(client, &warnings, "events").await;
        seen.events.retain(|event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            source.or(event.reporting_component.as_deref()).is_some_and(|from| from.starts_with("ferroband"))
        });
        seen.networks = seen.list_or_note(client, &everything, "network-attachment-definitions").await;
        seen.blocks = seen.list_or_note(client, &everything, "addressblocks").await;
        seen.pools = seen.list_or_note(client, &everything, "spiderippools").await;
        seen.states = seen.list_or_note(client, &everything, "sriovnetworknodestates").await;
        Ok(seen)
    }

    async fn list_or_note<K>(&mut self, client: &Client, which: &ListParams, what: &str) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        match Api::<K>::all(client.clone()).list(which).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.unreadable
                    .push(format!("{what}: no such kind in this cluster; run `ferroband crds apply`"));
                Vec::new()
            }
            Err(error) => {
                self.unreadable.push(format!("{what}: {error}"));
                Vec::new()
            }
        }
    }
}
