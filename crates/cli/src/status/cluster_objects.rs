//! Reads the API objects that `ferroband status` and `ferroband doctor` evaluate.

use ferroband_api::cncf::NetworkAttachmentDefinition;
use ferroband_api::ferroband::{AddressBlock, Fabric, NodePartitions, Partition, SubnetManagerHost};
use ferroband_api::spiderpool::SpiderIPPool;
use ferroband_api::sriov::{SriovNetworkNodePolicy, SriovNetworkNodeState};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The API objects that `ferroband status` and `ferroband doctor` evaluate.
#[derive(Debug, Default)]
pub struct ClusterObjects {
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    /// Leases named `ferroband-cluster`.
    pub leases: Vec<Lease>,
    /// Warning events about pods.
    pub events: Vec<Event>,
    pub networks: Vec<NetworkAttachmentDefinition>,
    pub blocks: Vec<AddressBlock>,
    pub pools: Vec<SpiderIPPool>,
    pub states: Vec<SriovNetworkNodeState>,
    pub policies: Vec<SriovNetworkNodePolicy>,
    pub fabrics: Vec<Fabric>,
    pub subnet_manager_hosts: Vec<SubnetManagerHost>,
    pub partitions: Vec<Partition>,
    pub node_partitions: Vec<NodePartitions>,
    /// Kinds of API objects that could not be listed, each with the error.
    pub unreadable: Vec<String>,
}

impl ClusterObjects {
    /// Reads all objects. Fails if pods or nodes cannot be read. Other kinds that cannot be read are added to
    /// `unreadable`.
    pub async fn read(client: &Client) -> kube::Result<Self> {
        let everything = ListParams::default();
        let mut objects = Self {
            pods: Api::all(client.clone()).list(&everything).await?.items,
            nodes: Api::all(client.clone()).list(&everything).await?.items,
            ..Self::default()
        };
        let leases = ListParams::default().fields("metadata.name=ferroband-cluster");
        let warnings = ListParams::default().fields("type=Warning,involvedObject.kind=Pod");
        objects.leases = objects.list_or_note(client, &leases, "leases").await;
        objects.events = objects.list_or_note(client, &warnings, "events").await;
        objects.networks = objects.list_or_note(client, &everything, "network-attachment-definitions").await;
        objects.blocks = objects.list_or_note(client, &everything, "addressblocks").await;
        objects.pools = objects.list_or_note(client, &everything, "spiderippools").await;
        objects.states = objects.list_or_note(client, &everything, "sriovnetworknodestates").await;
        objects.policies = objects.list_or_note(client, &everything, "sriovnetworknodepolicies").await;
        objects.fabrics = objects.list_or_note(client, &everything, "fabrics").await;
        objects.subnet_manager_hosts = objects.list_or_note(client, &everything, "subnetmanagerhosts").await;
        objects.partitions = objects.list_or_note(client, &everything, "partitions").await;
        objects.node_partitions = objects.list_or_note(client, &everything, "nodepartitions").await;
        Ok(objects)
    }

    async fn list_or_note<K>(&mut self, client: &Client, which: &ListParams, what: &str) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        match Api::<K>::all(client.clone()).list(which).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.unreadable.push(format!("{what}: CRD not installed; run `ferroband crds apply`"));
                Vec::new()
            }
            Err(error) => {
                self.unreadable.push(format!("{what}: {error}"));
                Vec::new()
            }
        }
    }
}
