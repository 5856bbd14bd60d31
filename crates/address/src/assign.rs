//! From requests to writes.

use crate::batch::{Answer, Plan, Refusal, Request};
use crate::choose::Chooser;
use crate::draft::Draft;
use crate::error::{Error, Holding};
use crate::granule::Owner;
use crate::kept::{Kept, Place};
use crate::pool::Pool;
use crate::view::View;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// How many holders an error names.
const HOLDERS_NAMED: usize = 4;

/// The node that plans.
#[derive(Clone, Debug)]
pub struct Planner<'a> {
    /// Its name.
    pub node: &'a str,
    /// How many schedulable nodes the cluster has.
    pub nodes: usize,
    /// How many times requests of this batch have lost a race already.
    pub attempt: u32,
}

impl Planner<'_> {
    /// Plans addresses for `requests` from what `view` knows.
    ///
    /// An owner that has an address in one of the request's pools keeps it. When a write is refused, refresh the
    /// granule in the view and plan the requests it answered again, with `attempt` one higher.
    pub fn assign(&self, view: &View, requests: &[Request]) -> Plan {
        let mut batch = Batch { planner: self, draft: Draft::over(view), choosers: HashMap::new(), view };
        let Kept { mut places, mut held } = Kept::of(view, self.node, requests);
        // An owner that asks twice, as two sandboxes of one pod would, gets one address.
        let mut owned: HashMap<Owner, Place<'_>> = HashMap::new();
        let mut chosen = Vec::new();
        let mut refusals = Vec::new();
        for positions in by_sandbox(requests) {
            let mut served = Vec::with_capacity(positions.len());
            let result = positions.iter().try_for_each(|position| {
                let request = &requests[*position];
                let mine = |place: &&Place<'_>| request.pools.iter().any(|pool| **pool == *place.pool);
                if let Some(error) = held.remove(position) {
                    return Err(error);
                }
                let had = places.remove(position);
                let had = had.or_else(|| request.owner().and_then(|o| owned.get(&o)).filter(mine).cloned());
                served.push((*position, batch.serve(request, had)?));
                Ok(())
            });
            match result {
                Ok(()) => {
                    batch.draft.keep();
                    for (position, place) in &served {
                        owned.extend(requests[*position].owner().map(|owner| (owner, place.clone())));
                    }
                    chosen.append(&mut served);
                }
                Err(error) => {
                    batch.draft.discard();
                    // They may have passed over what is free again now.
                    batch.choosers.clear();
                    let refuse = |request| Refusal { request, error: Error::clone(&error) };
                    refusals.extend(positions.into_iter().map(refuse));
                }
            }
        }
        let (writes, written) = batch.draft.writes();
        let mut answers: Vec<_> = chosen
            .into_iter()
            .map(|(request, Place { pool, id, offset, changed })| Answer {
                request,
                address: with_prefix(id.address(offset), pool.subnet()),
                gateway: pool.gateway(),
                write: if changed { written.get(&id).copied() } else { None },
            })
            .collect();
        answers.sort_by_key(|answer| answer.request);
        refusals.sort_by_key(|refusal| refusal.request);
        Plan { writes, answers, refusals }
    }
}

/// The work on one batch.
struct Batch<'r> {
    planner: &'r Planner<'r>,
    draft: Draft<'r>,
    choosers: HashMap<&'r Pool, Chooser<'r>>,
    view: &'r View,
}

impl<'r> Batch<'r> {
    /// Finds an address for a request that may have one already.
    fn serve(&mut self, request: &'r Request, had: Option<Place<'r>>) -> Result<Place<'r>, Error> {
        request.identified()?;
        let Planner { node, nodes, attempt } = *self.planner;
        if let Some(place) = had {
            let entry = request.entry(node, place.pool);
            let known = self.view.get(&place.id);
            let known = known.as_ref().and_then(|(granule, _)| granule.entries.get(&place.offset));
            let changed = known != Some(&entry);
            self.draft.set(&place.id, place.offset, Some(entry), None);
            return Ok(Place { changed, ..place });
        }
        let owner = request.owner();
        for pool in &request.pools {
            let left = owner.as_ref().and_then(|owner| self.draft.left_by(owner, pool));
            if let Some((id, offset)) = left {
                self.draft.set(&id, offset, Some(request.entry(node, pool)), None);
                return Ok(Place { pool, id, offset, changed: true });
            }
            let chooser = self
                .choosers
                .entry(pool)
                .or_insert_with(|| Chooser::new(pool, &self.draft, node, nodes, attempt));
            if let Some((id, offset, holder)) = chooser.next(&self.draft) {
                let entry = request.entry(node, pool);
                self.abandon(request);
                self.draft.set(&id, offset, Some(entry), holder);
                return Ok(Place { pool, id, offset, changed: true });
            }
        }
        Err(exhausted(&self.draft, &request.pools))
    }

    /// Gives up what waits elsewhere for a pod of this name: its pools are others now.
    fn abandon(&mut self, request: &Request) {
        let Some(owner) = request.owner().filter(|_| request.sticky) else { return };
        for granule in self.view.open_or_sticky(true) {
            for (offset, entry) in &granule.entries {
                if entry.sticky && entry.is_waiting() && entry.owner(granule.first) == owner {
                    self.draft.set(&granule.id(), *offset, None, None);
                }
            }
        }
    }
}

/// The positions of the requests of each sandbox, sandboxes in the order of their first.
fn by_sandbox(requests: &[Request]) -> Vec<Vec<usize>> {
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

fn exhausted(draft: &Draft<'_>, pools: &[Arc<Pool>]) -> Error {
    if pools.is_empty() {
        return Error::NoRange;
    }
    let mut holders = Vec::new();
    let mut more = 0;
    for pool in pools {
        for granule in draft.of(pool) {
            let assigned = granule.assigned().filter(|address| pool.contains(*address));
            if holders.len() >= HOLDERS_NAMED {
                more += assigned.count();
                continue;
            }
            let Some(whole) = draft.get(granule.id) else { continue };
            let entries = whole.entries.iter().map(|(offset, entry)| (whole.address(*offset), entry));
            for (address, entry) in entries.filter(|(address, _)| pool.contains(*address)) {
                if holders.len() < HOLDERS_NAMED {
                    holders.push(Holding { address, pod: entry.pod.clone(), node: entry.node.clone() });
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
