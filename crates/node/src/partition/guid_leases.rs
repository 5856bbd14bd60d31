//! The GUIDs that this node has claimed for pods, and which of them nobody needs any more. Pure.
//!
//! A pod that asks for a GUID may find itself on another function, or another node, when it is made anew, so a claim ends with
//! the sandbox: when no sandbox has it and the function shows that it carries another one.

use super::node_partitions_state::NodePartitionsState;
use ferroband_model::{Guid, PciAddress};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a claim that was found at the start is left alone: an ADD of the daemon before may still be at work with it. The
/// kubelet gives one two minutes.
const EXISTING_GRACE_PERIOD: Duration = Duration::from_secs(150);

/// A claim of this node.
pub type GuidLease = (PciAddress, Guid);

/// What is claimed, and what for.
#[derive(Debug, Default)]
pub struct GuidLeases {
    /// Each with the time from which it may be given back.
    release_after: BTreeMap<GuidLease, Option<Instant>>,
    /// By member, named as in the [`Book`].
    lease_by_member: BTreeMap<String, GuidLease>,
}

impl GuidLeases {
    /// An interface of a sandbox is going to have it.
    pub fn add(&mut self, name: &str, holding: GuidLease) {
        self.release_after.insert(holding, None);
        self.lease_by_member.insert(name.to_owned(), holding);
    }

    /// It stood in the API server when the daemon started.
    pub fn add_existing(&mut self, holding: GuidLease, now: Instant) {
        self.release_after.entry(holding).or_insert(Some(now + EXISTING_GRACE_PERIOD));
    }

    /// A sandbox, or one interface of it, is gone.
    pub fn remove_sandbox(&mut self, container: &str, ifname: Option<&str>) {
        self.lease_by_member.retain(|name, _| !NodePartitionsState::is_member_of(name, container, ifname));
    }

    /// Whether it is worth looking.
    pub fn has_unused(&self) -> bool {
        self.release_after.keys().any(|holding| !self.is_used(holding))
    }

    fn is_used(&self, holding: &GuidLease) -> bool {
        self.lease_by_member.values().any(|used| used == holding)
    }

    /// What can be given back: no sandbox has it, and the function is gone or shows another GUID. One that the host cannot see
    /// is in a pod.
    pub fn list_releasable(&self, seen: &BTreeMap<PciAddress, Option<Guid>>, now: Instant) -> Vec<GuidLease> {
        let idle = |(holding, from): &(&GuidLease, &Option<Instant>)| {
            let (pci, guid) = **holding;
            let carried = seen.get(&pci).is_some_and(|shown| shown.is_none_or(|shown| shown == guid));
            !carried && from.is_none_or(|from| now >= from) && !self.is_used(holding)
        };
        self.release_after.iter().filter(idle).map(|(holding, _)| *holding).collect()
    }

    /// It is given back.
    pub fn remove(&mut self, holding: GuidLease) {
        self.release_after.remove(&holding);
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
        let mut holdings = GuidLeases::default();
        holdings.add("c1.net1", (here, asked));
        let shows = |guid: Option<Guid>| BTreeMap::from([(here, guid)]);
        assert!(
            holdings.list_releasable(&shows(Some(own)), now).is_empty(),
            "an ADD has it, and has not set it yet"
        );
        holdings.remove_sandbox("c1", Some("net2"));
        holdings.remove_sandbox("c10", None);
        assert!(holdings.list_releasable(&shows(Some(own)), now).is_empty());
        holdings.remove_sandbox("c1", Some("net1"));
        assert!(holdings.list_releasable(&shows(None), now).is_empty(), "it is still in the pod");
        assert!(holdings.list_releasable(&shows(Some(asked)), now).is_empty(), "it still carries it");
        for seen in [shows(Some(own)), shows(Some(Guid::new(0))), BTreeMap::new()] {
            assert_eq!(holdings.list_releasable(&seen, now), [(here, asked)]);
        }
        holdings.remove((here, asked));
        assert!(holdings.list_releasable(&BTreeMap::new(), now).is_empty());
    }

    #[test]
    fn one_found_at_the_start_may_be_that_of_an_add_under_way() {
        let (holding, now) = ((pci("0000:3b:00.2"), Guid::new(0x0a01)), Instant::now());
        let mut holdings = GuidLeases::default();
        holdings.add_existing(holding, now);
        assert!(holdings.list_releasable(&BTreeMap::new(), now + Duration::from_secs(120)).is_empty());
        assert_eq!(holdings.list_releasable(&BTreeMap::new(), now + EXISTING_GRACE_PERIOD), [holding]);
        // What is used meanwhile counts from then on as the daemon's own.
        holdings.add("c1.net1", holding);
        holdings.add_existing(holding, now);
        assert!(holdings.list_releasable(&BTreeMap::new(), now + EXISTING_GRACE_PERIOD).is_empty());
        holdings.remove_sandbox("c1", None);
        assert_eq!(holdings.list_releasable(&BTreeMap::new(), now), [holding]);
    }
}
