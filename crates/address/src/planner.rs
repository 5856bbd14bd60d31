//! Plans the block writes that serve a batch of address requests.

use crate::batch::{AddressAssignment, AddressRequest, AssignmentPlan, RequestRefusal};
use crate::block::{AllocationOwner, IpBlock, IpBlockId};
use crate::block_view::BlockView;
use crate::chooser::AddressChooser;
use crate::draft::BlockDraft;
use crate::error::{AddressHolder, Error};
use crate::existing::{AllocationSlot, find_existing};
use crate::pool::AddressPool;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Number of address holders that an exhaustion error names.
const MAX_HOLDERS_IN_ERROR: usize = 4;

/// Plans assignments and releases for one node.
#[derive(Clone, Debug)]
pub struct AddressPlanner<'a> {
    /// Name of the node that assigns the addresses.
    pub node: &'a str,
    /// Number of schedulable nodes in the cluster.
    pub node_count: usize,
    /// Number of write conflicts that the requests of this batch have had so far.
    pub attempt: u32,
}

impl AddressPlanner<'_> {
    /// Plans addresses for `requests` from the blocks in `view`.
    ///
    /// An owner that already has an address in one of the request's pools keeps it. When a write conflicts, refresh
    /// the block in the view and plan its requests again with `attempt` increased by one.
    pub fn plan_assignments(&self, view: &BlockView, requests: &[AddressRequest]) -> AssignmentPlan {
        let mut batch = AssignmentBatch {
            planner: self,
            draft: BlockDraft::new(view, self.node),
            choosers: HashMap::new(),
            view,
        };
        let (mut slots, mut in_use) = find_existing(view, self.node, requests);
        // Two requests of one owner, for example from two sandboxes of one pod, get the same address.
        let mut owned: HashMap<AllocationOwner, AllocationSlot<'_>> = HashMap::new();
        let mut chosen = Vec::new();
        let mut refusals = Vec::new();
        for positions in group_by_sandbox(requests) {
            let mut served = Vec::with_capacity(positions.len());
            let mut cause = 0;
            let result = positions.iter().try_for_each(|position| {
                cause = *position;
                let request = &requests[*position];
                let in_requested_pools =
                    |slot: &&AllocationSlot<'_>| request.pools.iter().any(|pool| **pool == *slot.pool);
                if let Some(error) = in_use.remove(position) {
                    return Err(error);
                }
                let existing = slots.remove(position);
                let existing = existing.or_else(|| {
                    request.owner().and_then(|o| owned.get(&o)).filter(in_requested_pools).cloned()
                });
                served.push((*position, batch.assign_one(request, existing)?));
                Ok(())
            });
            match result {
                Ok(()) => {
                    batch.draft.commit();
                    for (position, slot) in &served {
                        owned.extend(requests[*position].owner().map(|owner| (owner, slot.clone())));
                    }
                    chosen.append(&mut served);
                }
                Err(error) => {
                    batch.draft.rollback();
                    // The choosers may have skipped addresses that the rollback made free again.
                    batch.choosers.clear();
                    let refuse = |request| RequestRefusal { request, cause, error: Error::clone(&error) };
                    refusals.extend(positions.into_iter().map(refuse));
                }
            }
        }
        let (writes, written) = batch.draft.into_writes();
        let mut assignments: Vec<_> = chosen
            .into_iter()
            .map(|(request, AllocationSlot { pool, id, offset, changed })| AddressAssignment {
                request,
                address: with_prefix(id.address(offset), pool.subnet()),
                gateway: pool.gateway(),
                write: if changed { written.get(&id).copied() } else { None },
            })
            .collect();
        assignments.sort_by_key(|assignment| assignment.request);
        refusals.sort_by_key(|refusal| refusal.request);
        AssignmentPlan { writes, assignments, refusals }
    }
}

/// The planned block changes and the search positions per pool, while one batch is planned.
struct AssignmentBatch<'r> {
    planner: &'r AddressPlanner<'r>,
    draft: BlockDraft<'r>,
    choosers: HashMap<&'r AddressPool, AddressChooser<'r>>,
    view: &'r BlockView,
}

impl<'r> AssignmentBatch<'r> {
    /// Assigns an address to `request`: the one in `existing`, the one its owner released last, or a free one.
    fn assign_one(
        &mut self,
        request: &'r AddressRequest,
        existing: Option<AllocationSlot<'r>>,
    ) -> Result<AllocationSlot<'r>, Error> {
        request.check_identity()?;
        let AddressPlanner { node, node_count, attempt } = *self.planner;
        if let Some(slot) = existing {
            let entry = request.allocation(node, slot.pool);
            let cached = self.view.get(&slot.id);
            let cached = cached.as_ref().and_then(|(block, _)| block.entries.get(&slot.offset));
            let changed = cached != Some(&entry);
            self.draft.set(&slot.id, slot.offset, Some(entry), None);
            return Ok(AllocationSlot { changed, ..slot });
        }
        let owner = request.owner();
        for pool in &request.pools {
            let last_released = owner.as_ref().and_then(|owner| self.draft.last_released_by(owner, pool));
            if let Some((id, offset)) = last_released {
                self.draft.set(&id, offset, Some(request.allocation(node, pool)), None);
                return Ok(AllocationSlot { pool, id, offset, changed: true });
            }
            let chooser = self
                .choosers
                .entry(pool)
                .or_insert_with(|| AddressChooser::new(pool, &self.draft, node, node_count, attempt));
            if let Some((id, offset, holder)) = chooser.next_free(&self.draft) {
                let entry = request.allocation(node, pool);
                self.release_reserved(request);
                self.draft.set(&id, offset, Some(entry), holder);
                return Ok(AllocationSlot { pool, id, offset, changed: true });
            }
        }
        Err(exhausted_error(&self.draft, &request.pools))
    }

    /// Releases addresses of other pools that are reserved for this pod name, because the pod's pools have changed.
    fn release_reserved(&mut self, request: &AddressRequest) {
        let Some(owner) = request.owner().filter(|_| request.sticky) else { return };
        let readable = |block: &&IpBlock| !self.view.is_unreadable(&block.id());
        for block in self.view.iter().map(|(block, _)| block).filter(readable) {
            for (offset, entry) in &block.entries {
                if entry.sticky && entry.is_reserved() && entry.owner(block.first) == owner {
                    self.draft.set(&block.id(), *offset, None, None);
                }
            }
        }
    }
}

/// Returns the indexes of the requests grouped by sandbox. The groups are in the order of their first requests.
fn group_by_sandbox(requests: &[AddressRequest]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut group_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, request) in requests.iter().enumerate() {
        let group = *group_of.entry(&request.container).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(position);
    }
    groups
}

fn exhausted_error(draft: &BlockDraft<'_>, pools: &[Arc<AddressPool>]) -> Error {
    if pools.is_empty() {
        return Error::NoRange;
    }
    if let [pool] = pools
        && let Some(address) = pool.requested()
    {
        return requested_in_use(draft, pool, address);
    }
    let mut holders = Vec::new();
    let mut more = 0;
    // A pool that is restricted to one address is followed by the whole pool.
    let whole_pools = || pools.iter().filter(|pool| pool.requested().is_none());
    for pool in whole_pools() {
        for block in draft.summaries_of(pool) {
            let assigned = block.assigned_addresses().filter(|address| pool.contains(*address));
            if holders.len() >= MAX_HOLDERS_IN_ERROR {
                more += assigned.count();
                continue;
            }
            let Some(full) = draft.get(block.id) else {
                let holder = draft.hinted_holder(block.id).filter(|holder| pool.contains(holder.address));
                more += assigned.count().saturating_sub(holder.is_some().into());
                holders.extend(holder.cloned());
                continue;
            };
            let entries = full.entries.iter().map(|(offset, entry)| (full.address(*offset), entry));
            for (address, entry) in entries.filter(|(address, _)| pool.contains(*address)) {
                if holders.len() < MAX_HOLDERS_IN_ERROR {
                    holders.push(AddressHolder { address, pod: entry.pod.clone(), node: entry.node.clone() });
                } else {
                    more += 1;
                }
            }
        }
    }
    let notices = draft.unreadable_notice().into_iter().collect();
    let pools = whole_pools().map(|pool| (pool.to_string(), pool.capacity())).collect();
    Error::Exhausted { pools, holders, more, notices }
}

fn requested_in_use(draft: &BlockDraft<'_>, pool: &AddressPool, address: IpAddr) -> Error {
    let (id, offset) = IpBlockId::containing(pool.space(), address);
    let block = draft.get(&id);
    let holder = block.as_ref().and_then(|block| block.entries.get(&offset)).map(|entry| AddressHolder {
        address,
        pod: entry.pod.clone(),
        node: entry.node.clone(),
    });
    Error::RequestedInUse { address, pool: pool.to_string(), holder }
}

fn with_prefix(address: IpAddr, subnet: IpNet) -> IpNet {
    // `new` fails only if the prefix is too long for the family, and the subnet has the same family.
    IpNet::new(address, subnet.prefix_len()).unwrap_or_else(|_| IpNet::from(address))
}

#[cfg(test)]
mod tests;
