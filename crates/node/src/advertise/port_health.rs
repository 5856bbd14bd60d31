//! Health of ports, debounced so that the kubelet does not see every flap.

use crate::discover::{Inventory, InventoryFunction};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long a port must be down before it is reported as down.
const DOWN_DELAY: Duration = Duration::from_secs(5);
/// How long a port must be up again before it is reported as up.
const UP_DELAY: Duration = Duration::from_secs(10);

/// Debounced health of the ports, by the PCI address of their function.
#[derive(Debug, Default)]
pub struct PortHealth {
    functions: BTreeMap<String, PortHealthEntry>,
}

#[derive(Debug)]
struct PortHealthEntry {
    /// The health reported to the kubelet.
    reported_up: bool,
    /// Since when the actual state differs from `reported_up`; `None` if they agree.
    differs_since: Option<Instant>,
}

impl PortHealth {
    /// Applies the port states of `inventory`, read at `now`. The state of a new function is reported without
    /// delay.
    pub fn update(&mut self, inventory: &Inventory, now: Instant) {
        let present = |pci: &String| inventory.function(pci).is_some();
        self.functions.retain(|pci, _| present(pci));
        for function in &inventory.functions {
            let up = has_active_port(inventory, function);
            let entry = self
                .functions
                .entry(function.pci.clone())
                .or_insert(PortHealthEntry { reported_up: up, differs_since: None });
            if entry.reported_up == up {
                entry.differs_since = None;
                continue;
            }
            let since = *entry.differs_since.get_or_insert(now);
            if now.duration_since(since) >= if up { UP_DELAY } else { DOWN_DELAY } {
                *entry = PortHealthEntry { reported_up: up, differs_since: None };
            }
        }
    }

    /// Whether the function at `pci` is reported as up. An unknown function counts as up.
    pub fn is_up(&self, pci: &str) -> bool {
        self.functions.get(pci).is_none_or(|entry| entry.reported_up)
    }

    /// Returns when the reported health of a port changes next, provided that the port states stay as they
    /// are. Returns `None` if no change is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = |entry: &PortHealthEntry| {
            entry.differs_since.map(|since| since + if entry.reported_up { DOWN_DELAY } else { UP_DELAY })
        };
        self.functions.values().filter_map(deadline).min()
    }
}

/// Whether at least one port of `function` is active. A function without visible ports counts as active, one whose
/// RDMA device cannot be read does not.
fn has_active_port(inventory: &Inventory, function: &InventoryFunction) -> bool {
    if inventory.rdma_devices_of(&function.pci).any(|device| device.error.is_some()) {
        return false;
    }
    let mut states = inventory
        .rdma_devices_of(&function.pci)
        .flat_map(|device| &device.ports)
        .map(|port| port.state.as_str())
        .peekable();
    states.peek().is_none() || states.any(|state| state == "Active")
}
