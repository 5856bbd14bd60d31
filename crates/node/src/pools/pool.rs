//! Definition of a device pool: a resource name and the selection of its devices.

use super::DeviceSelector;
use crate::discover::DeviceClass;
use ferroband_model::ResourceName;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A resource and the selection of its devices, from a configuration file, a policy or the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePool {
    /// Name that pods use in `resources.limits`.
    pub resource: ResourceName,
    /// Where the pool is configured, for messages: a file name, a policy or the command line.
    pub file: String,
    /// JSON path of the pool's entry in the configuration file, for messages. For example `resourceList[1]`.
    pub field: String,
    pub kind: DevicePoolKind,
    /// Also pass umad and issm device files to containers. A container that has them can reconfigure the fabric.
    pub management_files: bool,
}

/// What one device of the pool stands for, and how many devices there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePoolKind {
    /// Each device stands for all RDMA devices of the node, as in the JARVICE plugin.
    WholeNode { count: usize },
    /// Each device stands for all selected RDMA devices, as in the shared device plugin.
    Shared { count: usize, selector: DeviceSelector },
    /// Each selected function is a device, as in the SR-IOV device plugin.
    Functions(FunctionPool),
}

/// Selectors and options of a pool whose devices are PCI functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionPool {
    pub class: DeviceClass,
    /// A function belongs to the pool if at least one selector matches.
    pub selectors: Vec<DeviceSelector>,
    /// Do not report NUMA nodes to the kubelet.
    pub exclude_topology: bool,
    /// Additional information for the container, by PCI address. The information under the key `*` applies to
    /// all functions.
    pub additional_info: BTreeMap<String, Map<String, Value>>,
}

impl DevicePool {
    /// Creates a pool of `count` devices. Each of them stands for all RDMA devices of the node.
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
}
