//! Finds the addresses that owners already have.

use crate::batch::AddressRequest;
use crate::block::{AddressAllocation, AllocationOwner, IpBlockId, OwnerPod};
use crate::block_view::BlockView;
use crate::error::{AddressHolder, Error};
use crate::ip_space::IpFamily;
use crate::pool::AddressPool;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The address for a request: its pool, its block, and its offset in the block.
#[derive(Clone)]
pub(crate) struct AllocationSlot<'r> {
    pub(crate) pool: &'r AddressPool,
    pub(crate) id: IpBlockId,
    pub(crate) offset: u8,
    /// Whether the block must be written to assign the address.
    pub(crate) changed: bool,
}

/// Finds the addresses in `view` that the owners of `requests` already have. Returns, by the position of the request in
/// the batch, the addresses that the owners can keep, and the errors of requests whose address a sandbox on another node
/// may still use, or whose block cannot be read.
pub(crate) fn find_existing<'r>(
    view: &BlockView,
    node: &str,
    requests: &'r [AddressRequest],
) -> (HashMap<usize, AllocationSlot<'r>>, HashMap<usize, Error>) {
    let mut in_use = HashMap::new();
    let owners: Vec<_> = requests.iter().map(AddressRequest::owner).collect();
    let mut positions: HashMap<AllocationOwnerRef<'_>, Vec<usize>> = HashMap::new();
    let mut pools: HashSet<&AddressPool> = HashSet::new();
    for (position, (request, owner)) in requests.iter().zip(&owners).enumerate() {
        if let (Some(owner), Ok(())) = (owner, request.check_identity()) {
            let by_name = request.sticky.then(|| AllocationOwnerRef::of(owner));
            let by_uid =
                AllocationOwnerRef { sticky: false, pod: &request.pod.uid, ..AllocationOwnerRef::of(owner) };
            for owner in by_name.into_iter().chain(Some(by_uid).filter(|owner| !owner.pod.is_empty())) {
                positions.entry(owner).or_default().push(position);
            }
            pools.extend(request.pools.iter().map(Arc::as_ref));
        }
    }
    let mut best_slots: HashMap<usize, (usize, AllocationSlot<'r>)> = HashMap::new();
    for pool in pools {
        for (id, block) in view.blocks_of(pool) {
            for (offset, entry) in &block.entries {
                // A pod never moves to another node, so only sticky addresses can be on another node.
                if !entry.sticky && entry.node != node {
                    continue;
                }
                if !pool.can_keep(id.address(*offset)) {
                    continue;
                }
                // A sticky entry also belongs to its pod if a StatefulSet no longer controls the pod
                // (`kubectl delete --cascade=orphan`), and the other way round after the pod is adopted.
                let owner = AllocationOwnerRef::of_entry(entry, pool.family());
                let by_uid = AllocationOwnerRef { sticky: false, pod: &entry.uid, ..owner };
                let by_name = entry.sticky.then(|| positions.get(&owner)).flatten();
                let requesting = by_name.into_iter().chain(positions.get(&by_uid)).flatten();
                for position in requesting {
                    if view.is_unreadable(id) {
                        let (pool, cause) =
                            (pool.to_string(), format!("cannot read AddressBlock {}", id.object_name()));
                        in_use.insert(*position, Error::RecordsUnreadable { pool, cause });
                        continue;
                    }
                    if entry.node != node && !entry.is_reserved() {
                        // The previous pod with this name may still run on the other node.
                        let (pod, node) = (entry.pod.clone(), entry.node.clone());
                        let holder = AddressHolder { address: id.address(*offset), pod, node };
                        in_use.insert(*position, Error::StillInUse { holder });
                        continue;
                    }
                    let mut candidates = requests[*position].pools.iter();
                    let Some(rank) = candidates.position(|candidate| **candidate == *pool) else { continue };
                    if best_slots.get(position).is_none_or(|(best, _)| rank < *best) {
                        let slot = AllocationSlot { pool, id: id.clone(), offset: *offset, changed: false };
                        best_slots.insert(*position, (rank, slot));
                    }
                }
            }
        }
    }
    (best_slots.into_iter().map(|(position, (_, slot))| (position, slot)).collect(), in_use)
}

/// A borrowed [`AllocationOwner`]. A large pool has tens of thousands of allocations to compare without copying.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct AllocationOwnerRef<'a> {
    sticky: bool,
    pod: &'a str,
    interface: &'a str,
    family: IpFamily,
    ordinal: u8,
}

impl<'a> AllocationOwnerRef<'a> {
    fn of(owner: &'a AllocationOwner) -> Self {
        let (sticky, pod) = match &owner.pod {
            OwnerPod::Uid(uid) => (false, uid),
            OwnerPod::Name(pod) => (true, pod),
        };
        Self { sticky, pod, interface: &owner.interface, family: owner.family, ordinal: owner.ordinal }
    }

    fn of_entry(entry: &'a AddressAllocation, family: IpFamily) -> Self {
        let pod = if entry.sticky { &entry.pod } else { &entry.uid };
        Self { sticky: entry.sticky, pod, interface: &entry.interface, family, ordinal: entry.ordinal }
    }
}

#[cfg(test)]
mod tests {
    use crate::whereabouts::WhereaboutsConfig;
    use crate::{AddressPlanner, AddressRelease, BlockView, BlockWrite, InMemoryBlocks};
    use ferroband_model::PodRef;
    use serde_json::json;

    #[derive(Default)]
    struct StoredBlocks {
        stored: InMemoryBlocks,
        view: BlockView,
    }

    impl StoredBlocks {
        fn write(&mut self, writes: Vec<BlockWrite>) {
            for write in writes {
                let (block, version) = self.stored.write(&write).unwrap();
                self.view.observe(block, version);
            }
        }
    }

    fn assign(known: &mut StoredBlocks, pod: &str, uid: &str, sticky: bool, container: &str) -> String {
        let ipam = json!({"type": "whereabouts", "range": "10.0.0.0/24"});
        let config = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
        let pod = PodRef { namespace: "ns".into(), name: pod.into(), uid: uid.into() };
        let requests = config.requests(&pod, sticky, "net1", container);
        let planner = AddressPlanner { node: "n", node_count: 1, attempt: 0 };
        let plan = planner.plan_assignments(&known.view, &requests);
        known.write(plan.writes);
        plan.assignments[0].address.to_string()
    }

    #[test]
    fn pod_keeps_its_address_when_its_statefulset_is_deleted_or_adopts_it() {
        let mut view = StoredBlocks::default();
        let release = |known: &mut StoredBlocks, container: &str| {
            let release = AddressRelease { container: container.into(), ..AddressRelease::default() };
            let plan = AddressPlanner::plan_releases(&known.view, &[release]);
            known.write(plan.writes);
        };
        assert_eq!(assign(&mut view, "db-0", "u", true, "c1"), "10.0.0.1/24");
        release(&mut view, "c1");
        // The StatefulSet is deleted without its pods, and the sandbox of a pod is re-created.
        assert_eq!(assign(&mut view, "x", "other", false, "x"), "10.0.0.2/24", "10.0.0.1 is reserved");
        assert_eq!(assign(&mut view, "db-0", "u", false, "c2"), "10.0.0.1/24");
        // A new StatefulSet of that name adopts the pod.
        assert_eq!(assign(&mut view, "db-0", "u", true, "c3"), "10.0.0.1/24");
        release(&mut view, "c3");
        assert_eq!(assign(&mut view, "db-0", "u2", true, "c4"), "10.0.0.1/24", "the pod is re-created");
        release(&mut view, "c4");
        assert_eq!(assign(&mut view, "db-0", "u3", false, "c5"), "10.0.0.3/24", "a pod without StatefulSet");
    }
}
