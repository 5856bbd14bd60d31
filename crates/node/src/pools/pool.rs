//! A pool: a resource, and how its devices are chosen and given.

use super::DeviceSelector;
use crate::discover::DeviceClass;
use ferroband_model::ResourceName;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A resource as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePool {
    /// Its name in a pod's `resources`.
    pub resource: ResourceName,
    /// The file that it is configured in.
    pub file: String,
    /// Where in the file.
    pub field: String,
    /// What it offers.
    pub kind: DevicePoolKind,
    /// Whether containers get the files for management datagrams too, with which they can rewrite the fabric.
    pub management_files: bool,
}

/// What a pool offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePoolKind {
    /// All RDMA devices of the node in each unit, as the JARVICE plugin offered them.
    WholeNode {
        /// How many units.
        count: usize,
    },
    /// All chosen RDMA devices in each unit, as the shared plugin offers them.
    Shared {
        /// How many units.
        count: usize,
        /// Which devices.
        selector: DeviceSelector,
    },
    /// Each chosen function is a unit, as the SR-IOV plugin offers them.
    Functions(FunctionPool),
}

/// Functions, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionPool {
    /// What they must be.
    pub class: DeviceClass,
    /// Which; a function that any of these chooses is in.
    pub selectors: Vec<DeviceSelector>,
    /// Do not tell the kubelet their NUMA nodes.
    pub exclude_topology: bool,
    /// More to tell the container about a function, by address; `*` is for all.
    pub additional_info: BTreeMap<String, Map<String, Value>>,
}

impl DevicePool {
    /// All RDMA devices of the node in `count` units called `resource`.
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

    /// `jarvice.com/rdma`, one unit.
    pub fn jarvice() -> Option<Self> {
        Some(Self::whole_node("jarvice.com/rdma".parse().ok()?, 1))
    }
}
