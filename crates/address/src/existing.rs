//! Finds the addresses that owners already have.

use crate::batch::AddressRequest;
use crate::block::{AddressAllocation, AllocationOwner, IpBlockId, OwnerPod};
use crate::block_view::BlockView;
use crate::error::{AddressHolder, Error};
use crate::family::IpFamily;
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

/// Existing addresses of the requests' owners, by the position of the request in the batch.
pub(crate) struct ExistingAllocations<'r> {
    /// Addresses that the owners can keep.
    pub(crate) slots: HashMap<usize, AllocationSlot<'r>>,
    /// Requests whose address a sandbox on another node may still use.
    pub(crate) in_use: HashMap<usize, Error>,
}

impl<'r> ExistingAllocations<'r> {
    /// Finds the addresses in `view` that the owners of `requests` already have.
    pub(crate) fn find(view: &BlockView, node: &str, requests: &'r [AddressRequest]) -> Self {
        let mut in_use = HashMap::new();
        let slots = find_slots(view, node, requests, &mut in_use);
        Self { slots, in_use }
    }
}

fn find_slots<'r>(
    view: &BlockView,
    node: &str,
    requests: &'r [AddressRequest],
    in_use: &mut HashMap<usize, Error>,
) -> HashMap<usize, AllocationSlot<'r>> {
    let owners: Vec<_> = requests.iter().map(AddressRequest::owner).collect();
    let mut positions: HashMap<AllocationOwnerRef<'_>, Vec<usize>> = HashMap::new();
    let mut pools: HashSet<&AddressPool> = HashSet::new();
    for (position, (request, owner)) in requests.iter().zip(&owners).enumerate() {
        if let (Some(owner), Ok(())) = (owner, request.check_identity()) {
            positions.entry(AllocationOwnerRef::of(owner)).or_default().push(position);
            pools.extend(request.pools.iter().map(Arc::as_ref));
        }
    }
    let mut best_slots: HashMap<usize, (usize, AllocationSlot<'r>)> = HashMap::new();
    // Compact blocks (of other nodes) matter only for sticky requests.
    let sticky = requests.iter().any(|request| request.sticky);
    for pool in pools {
        for (id, block) in view.full_or_sticky_blocks_of(pool, sticky) {
            for (offset, entry) in &block.entries {
                // A pod never moves to another node, so only sticky addresses can be on another node.
                if !entry.sticky && entry.node != node {
                    continue;
                }
                let Some(requesting) = positions.get(&AllocationOwnerRef::of_entry(entry, pool.family()))
                else {
                    continue;
                };
                if !pool.can_keep(id.address(*offset)) {
                    continue;
                }
                for position in requesting {
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
    best_slots.into_iter().map(|(position, (_, slot))| (position, slot)).collect()
}

/// A borrowed [`AllocationOwner`]. A large pool has tens of thousands of allocations to compare without copying.
#[derive(PartialEq, Eq, Hash)]
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
