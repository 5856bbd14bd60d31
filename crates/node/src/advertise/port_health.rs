//! Whether ports carry traffic, without telling the kubelet of every flap.

use crate::discover::{Inventory, InventoryFunction};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A port that is down for this long is down.
const DOWN_DELAY: Duration = Duration::from_secs(5);
/// One that is active for this long is up again.
const UP_DELAY: Duration = Duration::from_secs(10);

/// What has been seen of the ports, by PCI function.
#[derive(Debug, Default)]
pub struct PortHealth {
    functions: BTreeMap<String, PortHealthEntry>,
}

#[derive(Debug)]
struct PortHealthEntry {
    /// What the kubelet is told.
    reported_up: bool,
    /// Since when it is otherwise.
    differs_since: Option<Instant>,
}

impl PortHealth {
    /// Take in what is there `now`. The first sight of a function counts at once.
    pub fn update(&mut self, inventory: &Inventory, now: Instant) {
        let present = |pci: &String| inventory.function(pci).is_some();
        self.functions.retain(|pci, _| present(pci));
        for function in &inventory.functions {
            let up = has_active_port(inventory, function);
            let seen = self
                .functions
                .entry(function.pci.clone())
                .or_insert(PortHealthEntry { reported_up: up, differs_since: None });
            if seen.reported_up == up {
                seen.differs_since = None;
                continue;
            }
            let since = *seen.differs_since.get_or_insert(now);
            if now.duration_since(since) >= if up { UP_DELAY } else { DOWN_DELAY } {
                *seen = PortHealthEntry { reported_up: up, differs_since: None };
            }
        }
    }

    /// Whether the ports of `pci` count as up.
    pub fn is_up(&self, pci: &str) -> bool {
        self.functions.get(pci).is_none_or(|seen| seen.reported_up)
    }

    /// When to look again although nothing changes.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = |seen: &PortHealthEntry| {
            seen.differs_since.map(|since| since + if seen.reported_up { DOWN_DELAY } else { UP_DELAY })
        };
        self.functions.values().filter_map(due).min()
    }
}

/// Whether any port is active; what has no ports in sight is not judged.
fn has_active_port(inventory: &Inventory, function: &InventoryFunction) -> bool {
    let mut states = inventory
        .rdma_devices_of(&function.pci)
        .flat_map(|device| &device.ports)
        .map(|port| port.state.as_str())
        .peekable();
    states.peek().is_none() || states.any(|state| state == "Active")
}
