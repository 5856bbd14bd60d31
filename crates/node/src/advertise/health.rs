//! Whether ports carry traffic, without telling the kubelet of every flap.

use crate::discover::{Function, Inventory};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A port that is down for this long is down.
const DOWN: Duration = Duration::from_secs(5);
/// One that is active for this long is up again.
const UP: Duration = Duration::from_secs(10);

/// What has been seen of the ports, by PCI function.
#[derive(Debug, Default)]
pub struct Health {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// What the kubelet is told.
    told: bool,
    /// Since when it is otherwise.
    otherwise: Option<Instant>,
}

impl Health {
    /// Take in what is there `now`. The first sight of a function counts at once.
    pub fn see(&mut self, inventory: &Inventory, now: Instant) {
        let present = |pci: &String| inventory.function(pci).is_some();
        self.seen.retain(|pci, _| present(pci));
        for function in &inventory.functions {
            let up = active(inventory, function);
            let seen = self.seen.entry(function.pci.clone()).or_insert(Seen { told: up, otherwise: None });
            if seen.told == up {
                seen.otherwise = None;
                continue;
            }
            let since = *seen.otherwise.get_or_insert(now);
            if now.duration_since(since) >= if up { UP } else { DOWN } {
                *seen = Seen { told: up, otherwise: None };
            }
        }
    }

    /// Whether the ports of `pci` count as up.
    pub fn is_up(&self, pci: &str) -> bool {
        self.seen.get(pci).is_none_or(|seen| seen.told)
    }

    /// When to look again although nothing changes.
    pub fn due(&self) -> Option<Instant> {
        let due = |seen: &Seen| seen.otherwise.map(|since| since + if seen.told { DOWN } else { UP });
        self.seen.values().filter_map(due).min()
    }
}

/// Whether any port is active; what has no ports in sight is not judged.
fn active(inventory: &Inventory, function: &Function) -> bool {
    let mut states = inventory
        .rdma_of(&function.pci)
        .flat_map(|device| &device.ports)
        .map(|port| port.state.as_str())
        .peekable();
    states.peek().is_none() || states.any(|state| state == "Active")
}
