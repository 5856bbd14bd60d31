//! What is shown, as programs get it.

use super::{ClusterObjects, addresses, daemons, nodes, pods};
use serde::Serialize;
use std::collections::BTreeMap;

/// The whole picture.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The pods of Ferroband.
    pub daemons: Vec<DaemonRow>,
    /// The nodes.
    pub nodes: Vec<NodeRow>,
    /// The interfaces of pods.
    pub pods: Vec<InterfaceRow>,
    /// The spaces of addresses.
    pub addresses: Vec<AddressSpaceRow>,
    /// What could not be seen, and why.
    pub unseen: Vec<String>,
}

/// A pod of Ferroband.
#[derive(Debug, PartialEq, Serialize)]
pub struct DaemonRow {
    /// `node` or `cluster`.
    pub component: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Where it runs.
    pub node: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is the cluster daemon that leads.
    pub leads: bool,
    /// Its image.
    pub image: Option<String>,
    /// How often it was started anew.
    pub restarts: i32,
}

/// A node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Whether the kubelet says it is ready.
    pub ready: bool,
    /// Whether pods may be put there.
    pub schedulable: bool,
    /// Whether its hardware is simulated.
    pub simulated: bool,
    /// Whether its node daemon is ready; nothing where none runs.
    pub daemon: Option<bool>,
    /// How far its virtual functions are as the policies ask.
    pub sync: Option<String>,
    /// Extended resources, by name.
    pub resources: BTreeMap<String, ResourceUsage>,
    /// What its conditions of ours complain about.
    pub problems: Vec<String>,
}

/// How much of a resource there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceUsage {
    /// What pods hold.
    pub used: u64,
    /// What the node can give.
    pub allocatable: u64,
}

/// An interface of a pod, or one that it waits for.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct InterfaceRow {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// Where it runs.
    pub node: Option<String>,
    /// The network, `<namespace>/<name>`.
    pub network: String,
    /// The interface in the pod.
    pub interface: Option<String>,
    /// The RDMA device, PCI function or parent interface behind it.
    pub device: Option<String>,
    /// The PCI function, where it is one.
    pub pci: Option<String>,
    /// Its addresses.
    pub ips: Vec<String>,
    /// The GUID of its port.
    pub guid: Option<String>,
    /// Its partition.
    pub pkey: Option<String>,
    /// Its link-layer address.
    pub mac: Option<String>,
    /// Its MTU.
    pub mtu: Option<u64>,
    /// The pod's phase, or the code of what is wrong.
    pub state: String,
    /// What is wrong, whole.
    pub message: Option<String>,
}

/// A space in which addresses are unique, or a pool.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct AddressSpaceRow {
    /// `space NAME` or `pool NAME`.
    pub name: String,
    /// The subnet, of a pool.
    pub subnet: Option<String>,
    /// How many addresses are assigned.
    pub used: u64,
    /// How many there are; known of a pool.
    pub total: Option<u64>,
    /// The objects that hold them; known of a space.
    pub blocks: Option<usize>,
}

impl StatusReport {
    /// The picture of what was seen.
    pub fn from_objects(seen: &ClusterObjects) -> Self {
        let daemons = daemons::daemon_rows(seen);
        Self {
            nodes: nodes::node_rows(seen, &daemons),
            pods: pods::pod_rows(seen),
            addresses: addresses::address_rows(seen),
            unseen: seen.unreadable.clone(),
            daemons,
        }
    }
}
