//! The status report, as printed in JSON and YAML.

use super::{ClusterObjects, addresses, daemons, nodes, pods};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    pub daemons: Vec<DaemonRow>,
    pub nodes: Vec<NodeRow>,
    pub pods: Vec<InterfaceRow>,
    pub addresses: Vec<AddressSpaceRow>,
    /// Kinds of API objects that could not be listed, each with the error. If there are any, the report is
    /// incomplete.
    pub unreadable: Vec<String>,
}

/// A pod of the node daemon or of the cluster daemon.
#[derive(Debug, PartialEq, Serialize)]
pub struct DaemonRow {
    /// Value of the label `app.kubernetes.io/component`: `node` or `cluster`.
    pub component: String,
    pub namespace: String,
    pub pod: String,
    pub node: Option<String>,
    pub ready: bool,
    /// Whether the pod holds the lease `ferroband-cluster` of its namespace.
    pub leads: bool,
    pub image: Option<String>,
    pub restarts: i32,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: String,
    pub ready: bool,
    pub schedulable: bool,
    pub simulated: bool,
    /// Whether the node daemon is ready; absent if no node daemon runs on the node.
    pub daemon: Option<bool>,
    /// `syncStatus` of the node's SriovNetworkNodeState; absent if the node has no SriovNetworkNodeState.
    pub sync: Option<String>,
    /// Used and allocatable amounts by extended resource.
    pub resources: BTreeMap<String, ResourceUsage>,
    /// Ferroband's failed node conditions, and the last sync error of the SriovNetworkNodeState.
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceUsage {
    pub used: u64,
    /// Number of healthy devices.
    pub allocatable: u64,
    /// Number of devices, healthy or not.
    pub capacity: u64,
}

/// An interface that a pod has or waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceRow {
    pub namespace: String,
    pub pod: String,
    pub node: Option<String>,
    /// NetworkAttachmentDefinition, as `<namespace>/<name>`; empty if the pod requests none and waits.
    pub network: String,
    /// Name of the interface in the pod; absent if the pod still waits for the interface.
    pub interface: Option<String>,
    /// RDMA device of the interface, or else its PCI address, or else its parent interface.
    pub device: Option<String>,
    /// PCI address of the device, if the network-status annotation reports one.
    pub pci: Option<String>,
    pub ips: Vec<String>,
    pub guid: Option<String>,
    pub pkey: Option<String>,
    pub mac: Option<String>,
    pub mtu: Option<u64>,
    /// `Ready`, `Terminating` or the phase of the pod. For a pod that waits for the interface, this is an
    /// error code, or else the reason of the pod's last event or condition.
    pub state: String,
    /// Why the pod waits; absent if it does not, or if nothing says why.
    pub message: Option<String>,
    /// What to do about `message`.
    pub remedy: Option<String>,
}

/// Address usage of an IP space (in which addresses are unique) or of a SpiderIPPool.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct AddressSpaceRow {
    /// `space NAME` or `pool NAME`.
    pub name: String,
    /// Subnet of the SpiderIPPool; absent for an IP space.
    pub subnet: Option<String>,
    /// Number of addresses that are assigned to pods.
    pub used: u64,
    /// Number of addresses in the SpiderIPPool, used or free; absent for an IP space.
    pub total: Option<u64>,
    /// Number of AddressBlocks of the IP space; absent for a SpiderIPPool.
    pub blocks: Option<usize>,
}

impl StatusReport {
    pub fn from_objects(objects: &ClusterObjects) -> Self {
        let daemons = daemons::daemon_rows(objects);
        Self {
            nodes: nodes::node_rows(objects, &daemons),
            pods: pods::pod_rows(objects),
            addresses: addresses::address_rows(objects),
            unreadable: objects.unreadable.clone(),
            daemons,
        }
    }
}
