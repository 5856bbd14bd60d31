//! The extended resources that a node offers.

use crate::discover::Inventory;

/// An extended resource and how it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name in a pod's `resources`: `domain/name`.
    pub name: String,
    /// How many pods may hold it at once.
    pub count: usize,
}

/// One unit of a resource, as the kubelet counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its id, the same after every restart: the kubelet remembers which pod holds which id.
    pub id: String,
    /// Whether a pod may be given it now.
    pub healthy: bool,
}

impl Resource {
    /// All RDMA devices of the node in one unit, as the JARVICE device plugin offered them.
    pub fn jarvice() -> Self {
        Self { name: "jarvice.com/rdma".to_owned(), count: 1 }
    }

    /// The name of our socket in the kubelet's folder.
    pub fn endpoint(&self) -> String {
        format!("ferroband-{}.sock", self.name.replace('/', "-"))
    }

    /// What the kubelet may give out, given what the node has.
    ///
    /// A node without RDMA devices has none; one whose devices have no character device yet (their module is
    /// still loading) has them, but not healthy.
    pub fn devices(&self, inventory: &Inventory) -> Vec<Device> {
        if inventory.devices.is_empty() {
            return Vec::new();
        }
        let healthy = inventory.devices.iter().any(|device| device.uverbs().is_some());
        let base = self.name.rsplit('/').next().unwrap_or(&self.name);
        (0..self.count).map(|n| Device { id: format!("{base}-{n}"), healthy }).collect()
    }
}
