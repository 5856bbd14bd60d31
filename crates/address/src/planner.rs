//! From requests to writes.

use crate::batch::{AddressAssignment, AddressRequest, AssignmentPlan, RequestRefusal};
use crate::block::AllocationOwner;
use crate::block_view::BlockView;
use crate::chooser::AddressChooser;
use crate::draft::BlockDraft;
use crate::error::{AddressHolder, Error};
use crate::existing::{AllocationSlot, ExistingAllocations};
use crate::pool::AddressPool;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// How many holders an error names.
const MAX_HOLDERS_IN_ERROR: usize = 4;

/// The node that plans.
#[derive(Clone, Debug)]
pub struct AddressPlanner<'a> {
    /// Its name.
    pub node: &'a str,
    /// How many schedulable nodes the cluster has.
    pub node_count: usize,
    /// How many times requests of this batch have lost a race already.
    pub attempt: u32,
}

impl AddressPlanner<'_> {
    /// Plans addresses for `requests` from what `view` knows.
    ///
    /// An owner that has an address in one of the request's pools keeps it. When a write is refused, refresh the
    /// granule in the view and plan the requests it answered again, with `attempt` one higher.
    pub fn plan_assignments(&self, view: &BlockView, requests: &[AddressRequest]) -> AssignmentPlan {
        let mut batch =
            AssignmentBatch { planner: self, draft: BlockDraft::new(view), choosers: HashMap::new(), view };
        let ExistingAllocations { slots: mut places, in_use: mut held } =
            ExistingAllocations::find(view, self.node, requests);
        // An owner that asks twice, as two sandboxes of one pod would, gets one address.
        let mut owned: HashMap<AllocationOwner, AllocationSlot<'_>> = HashMap::new();
        let mut chosen = Vec::new();
        let mut refusals = Vec::new();
        for positions in group_by_sandbox(requests) {
            let mut served = Vec::with_capacity(positions.len());
            let result = positions.iter().try_for_each(|position| {
                let request = &requests[*position];
                let mine =
                    |place: &&AllocationSlot<'_>| request.pools.iter().any(|pool| **pool == *place.pool);
                if let Some(error) = held.remove(position) {
                    return Err(error);
                }
                let had = places.remove(position);
                let had = had.or_else(|| request.owner().and_then(|o| owned.get(&o)).filter(mine).cloned());
                served.push((*position, batch.assign_one(request, had)?));
                Ok(())
            });
            match result {
                Ok(()) => {
                    batch.draft.commit();
                    for (position, place) in &served {
                        owned.extend(requests[*position].owner().map(|owner| (owner, place.clone())));
                    }
                    chosen.append(&mut served);
                }
                Err(error) => {
                    batch.draft.rollback();
                    // They may have passed over what is free again now.
                    batch.choosers.clear();
                    let refuse = |request| RequestRefusal { request, error: Error::clone(&error) };
                    refusals.extend(positions.into_iter().map(refuse));
                }
            }
        }
        let (writes, written) = batch.draft.into_writes();
        let mut answers: Vec<_> = chosen
            .into_iter()
            .map(|(request, AllocationSlot { pool, id, offset, changed })| AddressAssignment {
                request,
                address: with_prefix(id.address(offset), pool.subnet()),
                gateway: pool.gateway(),
                write: if changed { written.get(&id).copied() } else { None },
            })
            .collect();
        answers.sort_by_key(|answer| answer.request);
        refusals.sort_by_key(|refusal| refusal.request);
        AssignmentPlan { writes, assignments: answers, refusals }
    }
}

/// The work on one batch.
struct AssignmentBatch<'r> {
    planner: &'r AddressPlanner<'r>,
    draft: BlockDraft<'r>,
    choosers: HashMap<&'r AddressPool, AddressChooser<'r>>,
    view: &'r BlockView,
}

impl<'r> AssignmentBatch<'r> {
    /// Finds an address for a request that may have one already.
    fn assign_one(
        &mut self,
        request: &'r AddressRequest,
        had: Option<AllocationSlot<'r>>,
    ) -> Result<AllocationSlot<'r>, Error> {
        request.check_identity()?;
        let AddressPlanner { node, node_count: nodes, attempt } = *self.planner;
        if let Some(place) = had {
            let entry = request.allocation(node, place.pool);
            let known = self.view.get(&place.id);
            let known = known.as_ref().and_then(|(granule, _)| granule.entries.get(&place.offset));
            let changed = known != Some(&entry);
            self.draft.set(&place.id, place.offset, Some(entry), None);
            return Ok(AllocationSlot { changed, ..place });
        }
        let owner = request.owner();
        for pool in &request.pools {
            let left = owner.as_ref().and_then(|owner| self.draft.last_released_by(owner, pool));
            if let Some((id, offset)) = left {
                self.draft.set(&id, offset, Some(request.allocation(node, pool)), None);
                return Ok(AllocationSlot { pool, id, offset, changed: true });
            }
            let chooser = self
                .choosers
                .entry(pool)
                .or_insert_with(|| AddressChooser::new(pool, &self.draft, node, nodes, attempt));
            if let Some((id, offset, holder)) = chooser.next_free(&self.draft) {
                let entry = request.allocation(node, pool);
                self.release_reserved(request);
                self.draft.set(&id, offset, Some(entry), holder);
                return Ok(AllocationSlot { pool, id, offset, changed: true });
            }
        }
        Err(exhausted_error(&self.draft, &request.pools))
    }

    /// Gives up what waits elsewhere for a pod of this name: its pools are others now.
    fn release_reserved(&mut self, request: &AddressRequest) {
        let Some(owner) = request.owner().filter(|_| request.sticky) else { return };
        for granule in self.view.full_or_sticky_blocks(true) {
            for (offset, entry) in &granule.entries {
                if entry.sticky && entry.is_reserved() && entry.owner(granule.first) == owner {
                    self.draft.set(&granule.id(), *offset, None, None);
                }
            }
        }
    }
}

/// The positions of the requests of each sandbox, sandboxes in the order of their first.
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
    let mut holders = Vec::new();
    let mut more = 0;
    for pool in pools {
        for granule in draft.summaries_of(pool) {
            let assigned = granule.assigned_addresses().filter(|address| pool.contains(*address));
            if holders.len() >= MAX_HOLDERS_IN_ERROR {
                more += assigned.count();
                continue;
            }
            let Some(whole) = draft.get(granule.id) else { continue };
            let entries = whole.entries.iter().map(|(offset, entry)| (whole.address(*offset), entry));
            for (address, entry) in entries.filter(|(address, _)| pool.contains(*address)) {
                if holders.len() < MAX_HOLDERS_IN_ERROR {
                    holders.push(AddressHolder { address, pod: entry.pod.clone(), node: entry.node.clone() });
                } else {
                    more += 1;
                }
            }
        }
    }
    let pools = pools.iter().map(|pool| (pool.to_string(), pool.capacity())).collect();
    Error::Exhausted { pools, holders, more }
}

fn with_prefix(address: IpAddr, subnet: IpNet) -> IpNet {
    // Fails only for a prefix longer than the address, and the subnet's is of the same family.
    IpNet::new(address, subnet.prefix_len()).unwrap_or_else(|_| IpNet::from(address))
}

#[cfg(test)]
mod tests;
