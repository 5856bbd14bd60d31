//! Tracks the GUIDs that this node has claimed for pods, and decides which can be released. No I/O.
//!
//! A lease is the claim of one GUID for one virtual function. A recreated pod may get another function or
//! another node, so a lease is not kept after its sandbox is gone. A lease can be released once no sandbox
//! uses the GUID and the function has another GUID again.

use super::node_partitions_state::NodePartitionsState;
use ferroband_model::{Guid, PciAddress};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an unused lease that was found at startup is kept. An ADD that began under the previous daemon
/// may still use it; the kubelet allows an ADD two minutes.
const EXISTING_GRACE_PERIOD: Duration = Duration::from_secs(150);

/// A virtual function of this node and the GUID that is claimed for it.
pub type GuidLease = (PciAddress, Guid);

/// All GUID leases of this node, and the partition members that use them.
#[derive(Debug, Default)]
pub struct GuidLeases {
    /// Earliest release time of each lease; `None` if it can be released as soon as it is unused.
    release_after: BTreeMap<GuidLease, Option<Instant>>,
    /// Leases in use, by member name (see [`NodePartitionsState::member_name`]).
    lease_by_member: BTreeMap<String, GuidLease>,
}

impl GuidLeases {
    /// Adds a lease that the partition member `name` uses. A member is an interface of a sandbox.
    pub fn add(&mut self, name: &str, lease: GuidLease) {
        self.release_after.insert(lease, None);
        self.lease_by_member.insert(name.to_owned(), lease);
    }

    /// Adds a lease that was found in a GuidBlock object at startup, unless the lease is known already.
    pub fn add_existing(&mut self, lease: GuidLease, now: Instant) {
        self.release_after.entry(lease).or_insert(Some(now + EXISTING_GRACE_PERIOD));
    }

    /// Whether a pod requested the GUID of `lease` for its function.
    pub fn contains(&self, lease: &GuidLease) -> bool {
        self.release_after.contains_key(lease)
    }

    /// Marks the leases of a sandbox, or of one of its interfaces, as unused.
    pub fn remove_sandbox(&mut self, container: &str, ifname: Option<&str>) {
        self.lease_by_member.retain(|name, _| !NodePartitionsState::is_member_of(name, container, ifname));
    }

    /// Whether at least one lease is not used by any partition member.
    pub fn has_unused(&self) -> bool {
        self.release_after.keys().any(|lease| !self.is_used(lease))
    }

    fn is_used(&self, lease: &GuidLease) -> bool {
        self.lease_by_member.values().any(|in_use| in_use == lease)
    }

    /// Lists the leases that can be released: no sandbox uses them, and the function is gone or has another
    /// GUID. If `function_guids` contains `None` for a function, the function is in a pod's network
    /// namespace, and its lease is kept.
    pub fn list_releasable(
        &self,
        function_guids: &BTreeMap<PciAddress, Option<Guid>>,
        now: Instant,
    ) -> Vec<GuidLease> {
        let is_releasable = |(lease, from): &(&GuidLease, &Option<Instant>)| {
            let (pci, guid) = **lease;
            let still_set =
                function_guids.get(&pci).is_some_and(|current| current.is_none_or(|current| current == guid));
            !still_set && from.is_none_or(|from| now >= from) && !self.is_used(lease)
        };
        self.release_after.iter().filter(is_releasable).map(|(lease, _)| *lease).collect()
    }

    pub fn remove(&mut self, lease: GuidLease) {
        self.release_after.remove(&lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci(text: &str) -> PciAddress {
        text.parse().unwrap()
    }

    // Case: partitions 33
    #[test]
    fn lease_ends_with_its_sandbox_once_the_function_has_another_guid() {
        let (function, requested, own) = (pci("0000:3b:00.2"), Guid::new(0x0a01), Guid::new(0x01));
        let now = Instant::now();
        let mut leases = GuidLeases::default();
        leases.add("c1.net1", (function, requested));
        let shows = |guid: Option<Guid>| BTreeMap::from([(function, guid)]);
        assert!(
            leases.list_releasable(&shows(Some(own)), now).is_empty(),
            "an ADD has the lease but has not set the GUID yet"
        );
        leases.remove_sandbox("c1", Some("net2"));
        leases.remove_sandbox("c10", None);
        assert!(leases.list_releasable(&shows(Some(own)), now).is_empty());
        leases.remove_sandbox("c1", Some("net1"));
        assert!(leases.list_releasable(&shows(None), now).is_empty(), "the function is still in the pod");
        assert!(
            leases.list_releasable(&shows(Some(requested)), now).is_empty(),
            "the function still has the GUID"
        );
        for function_guids in [shows(Some(own)), shows(Some(Guid::new(0))), BTreeMap::new()] {
            assert_eq!(leases.list_releasable(&function_guids, now), [(function, requested)]);
        }
        leases.remove((function, requested));
        assert!(leases.list_releasable(&BTreeMap::new(), now).is_empty());
    }

    #[test]
    fn lease_found_at_startup_has_a_grace_period() {
        let (lease, now) = ((pci("0000:3b:00.2"), Guid::new(0x0a01)), Instant::now());
        let mut leases = GuidLeases::default();
        leases.add_existing(lease, now);
        assert!(leases.list_releasable(&BTreeMap::new(), now + Duration::from_secs(120)).is_empty());
        assert_eq!(leases.list_releasable(&BTreeMap::new(), now + EXISTING_GRACE_PERIOD), [lease]);
        // A lease that a sandbox has used must be releasable as soon as the sandbox is gone, without a grace
        // period.
        leases.add("c1.net1", lease);
        leases.add_existing(lease, now);
        assert!(leases.list_releasable(&BTreeMap::new(), now + EXISTING_GRACE_PERIOD).is_empty());
        leases.remove_sandbox("c1", None);
        assert_eq!(leases.list_releasable(&BTreeMap::new(), now), [lease]);
    }
}
