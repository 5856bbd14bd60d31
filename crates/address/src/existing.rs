//! Who has an address already.

use crate::batch::AddressRequest;
use crate::block::{AddressAllocation, AllocationOwner, IpBlockId, OwnerPod};
use crate::block_view::BlockView;
use crate::error::{AddressHolder, Error};
use crate::family::IpFamily;
use crate::pool::AddressPool;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where a request's address is.
#[derive(Clone)]
pub(crate) struct AllocationSlot<'r> {
    pub(crate) pool: &'r AddressPool,
    pub(crate) id: IpBlockId,
    pub(crate) offset: u8,
    /// Whether a write is needed.
    pub(crate) changed: bool,
}

/// What is known of the requests' owners, by the request's position.
pub(crate) struct ExistingAllocations<'r> {
    /// The addresses that they have.
    pub(crate) slots: HashMap<usize, AllocationSlot<'r>>,
    /// Those whose address a sandbox on another node may still use.
    pub(crate) in_use: HashMap<usize, Error>,
}

impl<'r> ExistingAllocations<'r> {
    /// Looks the owners of the requests up.
    pub(crate) fn find(view: &BlockView, node: &str, requests: &'r [AddressRequest]) -> Self {
        let mut held = HashMap::new();
        let places = find_slots(view, node, requests, &mut held);
        Self { slots: places, in_use: held }
    }
}

fn find_slots<'r>(
    view: &BlockView,
    node: &str,
    requests: &'r [AddressRequest],
    held: &mut HashMap<usize, Error>,
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
    let mut kept: HashMap<usize, (usize, AllocationSlot<'r>)> = HashMap::new();
    // Others have what only a name can claim.
    let sticky = requests.iter().any(|request| request.sticky);
    for pool in pools {
        for (id, granule) in view.full_or_sticky_blocks_of(pool, sticky) {
            for (offset, entry) in &granule.entries {
                // A pod never changes its node, so only sticky addresses come from elsewhere.
                if !entry.sticky && entry.node != node {
                    continue;
                }
                let Some(waiting) = positions.get(&AllocationOwnerRef::of_entry(entry, pool.family())) else {
                    continue;
                };
                if !pool.can_keep(id.address(*offset)) {
                    continue;
                }
                for position in waiting {
                    if entry.node != node && !entry.is_reserved() {
                        // The new pod may be running before the old one, on a node nobody can reach, has ended.
                        let (pod, node) = (entry.pod.clone(), entry.node.clone());
                        let holding = AddressHolder { address: id.address(*offset), pod, node };
                        held.insert(*position, Error::StillInUse { holder: holding });
                        continue;
                    }
                    let mut candidates = requests[*position].pools.iter();
                    let Some(rank) = candidates.position(|candidate| **candidate == *pool) else { continue };
                    if kept.get(position).is_none_or(|(best, _)| rank < *best) {
                        let place = AllocationSlot { pool, id: id.clone(), offset: *offset, changed: false };
                        kept.insert(*position, (rank, place));
                    }
                }
            }
        }
    }
    kept.into_iter().map(|(position, (_, place))| (position, place)).collect()
}

/// An [`Owner`] without copies: a big pool has tens of thousands of entries to compare with.
#[derive(PartialEq, Eq, Hash)]
struct AllocationOwnerRef<'a> {
    sticky: bool,
    holder: &'a str,
    interface: &'a str,
    family: IpFamily,
    ordinal: u8,
}

impl<'a> AllocationOwnerRef<'a> {
    fn of(owner: &'a AllocationOwner) -> Self {
        let (sticky, holder) = match &owner.pod {
            OwnerPod::Uid(uid) => (false, uid),
            OwnerPod::Name(pod) => (true, pod),
        };
        Self { sticky, holder, interface: &owner.interface, family: owner.family, ordinal: owner.ordinal }
    }

    fn of_entry(entry: &'a AddressAllocation, family: IpFamily) -> Self {
        let holder = if entry.sticky { &entry.pod } else { &entry.uid };
        Self { sticky: entry.sticky, holder, interface: &entry.interface, family, ordinal: entry.ordinal }
    }
}
