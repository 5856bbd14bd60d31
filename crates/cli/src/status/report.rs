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
    /// Objects that could not be read, with the reason.
    pub unseen: Vec<String>,
}

/// A daemon pod.
#[derive(Debug, PartialEq, Serialize)]
pub struct DaemonRow {
    /// `node` or `cluster`.
    pub component: String,
    pub namespace: String,
    pub pod: String,
    pub node: Option<String>,
    pub ready: bool,
    /// Whether it is the leader.
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
    /// Whether its node daemon is ready; `None` if it has none.
    pub daemon: Option<bool>,
    /// `syncStatus` of its SriovNetworkNodeState.
    pub sync: Option<String>,
    /// Extended resources by name.
    pub resources: BTreeMap<String, ResourceUsage>,
    /// Messages of Ferroband's failed node conditions.
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceUsage {
    pub used: u64,
    pub allocatable: u64,
}

/// An interface that a pod has or waits for.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct InterfaceRow {
    pub namespace: String,
    pub pod: String,
    pub node: Option<String>,
    /// The network, `<namespace>/<name>`.
    pub network: String,
    /// The interface name in the pod.
    pub interface: Option<String>,
    /// The RDMA device, PCI function or parent interface behind it.
    pub device: Option<String>,
    /// The PCI function, if any.
    pub pci: Option<String>,
    pub ips: Vec<String>,
    pub guid: Option<String>,
    pub pkey: Option<String>,
    pub mac: Option<String>,
    pub mtu: Option<u64>,
    /// The pod's phase, or the error code.
    pub state: String,
    /// The full error message.
    pub message: Option<String>,
}

/// An IP space (in which addresses are unique) or a pool.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct AddressSpaceRow {
    /// `space NAME` or `pool NAME`.
    pub name: String,
    /// The subnet of a pool.
    pub subnet: Option<String>,
    /// Number of assigned addresses.
    pub used: u64,
    /// Total number of addresses of a pool.
    pub total: Option<u64>,
    /// Number of AddressBlocks of an IP space.
    pub blocks: Option<usize>,
}

impl StatusReport {
    pub fn from_objects(objects: &ClusterObjects) -> Self {
        let daemons = daemons::daemon_rows(objects);
        Self {
            nodes: nodes::node_rows(objects, &daemons),
            pods: pods::pod_rows(objects),
            addresses: addresses::address_rows(objects),
            unseen: objects.unreadable.clone(),
            daemons,
        }
    }
}
