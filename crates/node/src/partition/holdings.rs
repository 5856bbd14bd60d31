//! The GUIDs that this node has claimed for pods, and which of them nobody needs any more. Pure.
//!
//! A pod that asks for a GUID may find itself on another function, or another node, when it is made anew, so a claim ends with
//! the sandbox: when no sandbox has it and the function shows that it carries another one.

use super::book::Book;
use ferroband_model::{Guid, PciAddress};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a claim that was found at the start is left alone: an ADD of the daemon before may still be at work with it. The
/// kubelet gives one two minutes.
const FOUND: Duration = Duration::from_secs(150);

/// A claim of this node.
pub type Holding = (PciAddress, Guid);

/// What is claimed, and what for.
#[derive(Debug, Default)]
pub struct Holdings {
    /// Each with the time from which it may be given back.
    claimed: BTreeMap<Holding, Option<Instant>>,
    /// By member, named as in the [`Book`].
    used: BTreeMap<String, Holding>,
}

impl Holdings {
    /// An interface of a sandbox is going to have it.
    pub fn take(&mut self, name: &str, holding: Holding) {
        self.claimed.insert(holding, None);
        self.used.insert(name.to_owned(), holding);
    }

    /// It stood in the API server when the daemon started.
    pub fn find(&mut self, holding: Holding, now: Instant) {
        self.claimed.entry(holding).or_insert(Some(now + FOUND));
    }

    /// A sandbox, or one interface of it, is gone.
    pub fn leave(&mut self, container: &str, ifname: Option<&str>) {
        self.used.retain(|name, _| !Book::is_of(name, container, ifname));
    }

    /// Whether it is worth looking.
    pub fn has_unused(&self) -> bool {
        self.claimed.keys().any(|holding| !self.is_used(holding))
    }

    fn is_used(&self, holding: &Holding) -> bool {
        self.used.values().any(|used| used == holding)
    }

    /// What can be given back: no sandbox has it, and the function is gone or shows another GUID. One that the host cannot see
    /// is in a pod.
    pub fn idle(&self, seen: &BTreeMap<PciAddress, Option<Guid>>, now: Instant) -> Vec<Holding> {
        let idle = |(holding, from): &(&Holding, &Option<Instant>)| {
            let (pci, guid) = **holding;
            let carried = seen.get(&pci).is_some_and(|shown| shown.is_none_or(|shown| shown == guid));
            !carried && from.is_none_or(|from| now >= from) && !self.is_used(holding)
        };
        self.claimed.iter().filter(idle).map(|(holding, _)| *holding).collect()
    }

    /// It is given back.
    pub fn gave_back(&mut self, holding: Holding) {
        self.claimed.remove(&holding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    #[test]
    fn a_claim_ends_with_its_sandbox_once_the_function_carries_another_guid() {
        let (here, asked, own) = (pci("0000:3b:00.2"), Guid::new(0x0a01), Guid::new(0x01));
        let now = Instant::now();
        let mut holdings = Holdings::default();
        holdings.take("c1.net1", (here, asked));
        let shows = |guid: Option<Guid>| BTreeMap::from([(here, guid)]);
        assert!(holdings.idle(&shows(Some(own)), now).is_empty(), "an ADD has it, and has not set it yet");
        holdings.leave("c1", Some("net2"));
        holdings.leave("c10", None);
        assert!(holdings.idle(&shows(Some(own)), now).is_empty());
        holdings.leave("c1", Some("net1"));
        assert!(holdings.idle(&shows(None), now).is_empty(), "it is still in the pod");
        assert!(holdings.idle(&shows(Some(asked)), now).is_empty(), "it still carries it");
        for seen in [shows(Some(own)), shows(Some(Guid::new(0))), BTreeMap::new()] {
            assert_eq!(holdings.idle(&seen, now), [(here, asked)]);
        }
        holdings.gave_back((here, asked));
        assert!(holdings.idle(&BTreeMap::new(), now).is_empty());
    }

    #[test]
    fn one_found_at_the_start_may_be_that_of_an_add_under_way() {
        let (holding, now) = ((pci("0000:3b:00.2"), Guid::new(0x0a01)), Instant::now());
        let mut holdings = Holdings::default();
        holdings.find(holding, now);
        assert!(holdings.idle(&BTreeMap::new(), now + Duration::from_secs(120)).is_empty());
        assert_eq!(holdings.idle(&BTreeMap::new(), now + FOUND), [holding]);
        // What is used meanwhile counts from then on as the daemon's own.
        holdings.take("c1.net1", holding);
        holdings.find(holding, now);
        assert!(holdings.idle(&BTreeMap::new(), now + FOUND).is_empty());
        holdings.leave("c1", None);
        assert_eq!(holdings.idle(&BTreeMap::new(), now), [holding]);
    }
}
