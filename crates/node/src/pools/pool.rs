//! A pool: a resource and the selection of its devices.

use super::DeviceSelector;
use crate::discover::DeviceClass;
use ferroband_model::ResourceName;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A configured resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePool {
    /// Name in a pod's `resources`.
    pub resource: ResourceName,
    /// Configuration file.
    pub file: String,
    /// Path in the file.
    pub field: String,
    pub kind: DevicePoolKind,
    /// Also pass umad and issm files to containers. With them, containers can reconfigure the fabric.
    pub management_files: bool,
}

/// The devices of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePoolKind {
    /// Each device stands for all RDMA devices of the node, as in the JARVICE plugin.
    WholeNode { count: usize },
    /// Each device stands for all selected RDMA devices, as in the shared device plugin.
    Shared { count: usize, selector: DeviceSelector },
    /// Each selected function is a device, as in the SR-IOV device plugin.
    Functions(FunctionPool),
}

/// A selection of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionPool {
    pub class: DeviceClass,
    /// A function belongs to the pool if any selector matches.
    pub selectors: Vec<DeviceSelector>,
    /// Do not report NUMA nodes to the kubelet.
    pub exclude_topology: bool,
    /// Additional information for the container by PCI address; `*` applies to all.
    pub additional_info: BTreeMap<String, Map<String, Value>>,
}

impl DevicePool {
    /// `count` devices of `resource`, each for all RDMA devices of the node.
    pub fn whole_node(resource: ResourceName, count: usize) -> Self {
        let file = "command line".to_owned();
        Self {
            resource,
            file,
            field: String::new(),
            kind: DevicePoolKind::WholeNode { count },
            management_files: false,
        }
    }

    /// `jarvice.com/rdma` with one device.
    pub fn jarvice() -> Option<Self> {
        Some(Self::whole_node("jarvice.com/rdma".parse().ok()?, 1))
    }
}
