//! A pool: a resource, and how its devices are chosen and given.

use super::Selector;
use crate::discover::Class;
use ferroband_model::ResourceName;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A resource as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name in a pod's `resources`.
    pub resource: ResourceName,
    /// The file that it is configured in.
    pub file: String,
    /// Where in the file.
    pub field: String,
    /// What it offers.
    pub kind: Kind,
    /// Whether containers get the files for management datagrams too, with which they can rewrite the fabric.
    pub management: bool,
}

/// What a pool offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All RDMA devices of the node in each unit, as the JARVICE plugin offered them.
    Whole {
        /// How many units.
        count: usize,
    },
    /// All chosen RDMA devices in each unit, as the shared plugin offers them.
    Shared {
        /// How many units.
        count: usize,
        /// Which devices.
        selector: Selector,
    },
    /// Each chosen function is a unit, as the SR-IOV plugin offers them.
    Functions(Functions),
}

/// Functions, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// What they must be.
    pub class: Class,
    /// Which; a function that any of these chooses is in.
    pub selectors: Vec<Selector>,
    /// Do not tell the kubelet their NUMA nodes.
    pub exclude_topology: bool,
    /// More to tell the container about a function, by address; `*` is for all.
    pub extra: BTreeMap<String, Map<String, Value>>,
}

impl Pool {
    /// All RDMA devices of the node in `count` units called `resource`.
    pub fn whole(resource: ResourceName, count: usize) -> Self {
        let file = "command line".to_owned();
        Self { resource, file, field: String::new(), kind: Kind::Whole { count }, management: false }
    }

    /// `jarvice.com/rdma`, one unit.
    pub fn jarvice() -> Option<Self> {
        Some(Self::whole("jarvice.com/rdma".parse().ok()?, 1))
    }
}
