//! Plans one round of calls.

use super::calls::{BlockCall, PodName};
use super::write_batch::{WriteBatch, plan_batch};
use super::{NodeAllocator, PoolGate};
use crate::batch::{AddressRequest, BlockWrite};
use crate::block::IpBlockId;
use crate::error::Error;
use crate::planner::AddressPlanner;
use crate::pool::AddressPool;
use crate::sticky::{StickyAddress, StickyRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A block with more assigned addresses, of which the node does not know the offsets, is read before it is written.
const MAX_USED_WITHOUT_READ: u8 = 8;

/// The calls of one round, and the requests that they serve.
#[derive(Debug, Default)]
pub(super) struct RoundPlan {
    pub(super) calls: Vec<BlockCall>,
    pub(super) issued: Duration,
    /// `None` if the node must read before it plans. No request is answered then.
    pub(super) batch: Option<WriteBatch>,
    /// The requests of all queued assignments, in order.
    pub(super) requests: Vec<AddressRequest>,
    /// For each write of the batch, its position in `calls`; `None` if it must wait for the other calls.
    pub(super) write_calls: Vec<Option<usize>>,
    /// Requests that are not answered after this round, because what they depend on is being read.
    pub(super) kept: BTreeSet<usize>,
}

impl RoundPlan {
    fn reads(calls: Vec<BlockCall>, issued: Duration) -> Self {
        Self { calls, issued, ..Self::default() }
    }

    fn add(&mut self, call: BlockCall) {
        if !self.calls.contains(&call) {
            self.calls.push(call);
        }
    }
}

impl<T> NodeAllocator<T> {
    pub(super) fn plan_round(&mut self, now: Duration, gate: PoolGate<'_>) -> RoundPlan {
        if self.knowledge.needs_own_list(now) {
            return RoundPlan::reads(vec![BlockCall::ListOwn], now);
        }
        let uncertain: Vec<_> = self.knowledge.uncertain.iter().cloned().map(BlockCall::Read).collect();
        if !uncertain.is_empty() {
            return RoundPlan::reads(uncertain, now);
        }
        let pointers = self.sticky_reads();
        if !pointers.is_empty() {
            return RoundPlan::reads(pointers, now);
        }
        self.plan_writes(now, gate)
    }

    /// Returns the reads of the pointers of queued StatefulSet pods.
    fn sticky_reads(&mut self) -> Vec<BlockCall> {
        let pods: BTreeSet<_> =
            self.queued_requests().filter(|request| request.sticky).map(pod_name).collect();
        self.sticky.retain(|pod, _| pods.contains(pod));
        let unread = pods.into_iter().filter(|pod| !self.sticky.contains_key(pod));
        unread.map(BlockCall::ReadSticky).collect()
    }

    fn queued_requests(&self) -> impl Iterator<Item = &AddressRequest> {
        self.queue.assignments.iter().flat_map(|pending| &pending.sandbox.requests)
    }

    fn plan_writes(&mut self, now: Duration, gate: PoolGate<'_>) -> RoundPlan {
        let releases: Vec<_> = self.queue.releases.iter().map(|(release, _)| release.clone()).collect();
        let mut round = RoundPlan { issued: now, ..RoundPlan::default() };
        // By position of the request: whether it waits for the gate, and when it arrived.
        let mut gated = Vec::new();
        let mut arrived = Vec::new();
        for pending in &self.queue.assignments {
            for request in &pending.sandbox.requests {
                let permitted = |pool: &Arc<AddressPool>| match pending.sandbox.restore {
                    true => (pool.clone(), false),
                    false => self.permitted(pool, gate),
                };
                let (pools, closed): (Vec<_>, Vec<_>) = request.pools.iter().map(permitted).unzip();
                gated.push(!closed.is_empty() && closed.iter().all(|closed| *closed));
                arrived.push(pending.arrived);
                round.requests.push(AddressRequest { pools, ..request.clone() });
            }
        }
        let (node_count, attempt) = (self.node_count, self.attempts());
        let planner = AddressPlanner { node: &self.node, node_count, attempt };
        let batch = plan_batch(&mut self.view, &planner, &releases, &round.requests);

        let mut held = vec![false; batch.writes.len()];
        for (write, held) in batch.writes.iter().zip(&mut held) {
            if self.must_read_first(write) {
                *held = true;
                if !self.knowledge.is_proven(&write.id(), now) {
                    round.add(BlockCall::Read(write.id()));
                }
            }
        }
        let mut pointers: BTreeMap<PodName, StickyRecord> = BTreeMap::new();
        for assignment in &batch.assignments {
            let request = &round.requests[assignment.request].clone();
            let address = assignment.address.addr();
            let Some(pool) = pool_of(request, address) else { continue };
            let (id, _) = IpBlockId::containing(pool.space(), address);
            match assignment.write {
                None if !self.knowledge.is_seen_after(&id, arrived[assignment.request]) => {
                    round.kept.insert(assignment.request);
                    round.add(BlockCall::Read(id.clone()));
                }
                Some(write) if self.view.get(&id).is_none() => {
                    let calls = self.knowledge.explore(pool, now);
                    held[write] |= !calls.is_empty();
                    calls.into_iter().for_each(|call| round.add(call));
                }
                _ => {}
            }
            if request.sticky && !self.point_to(request, pool, address, &mut pointers) {
                round.kept.insert(assignment.request);
                if let Some(write) = assignment.write {
                    held[write] = true;
                }
            }
        }
        for (pod, record) in pointers {
            round.add(BlockCall::WriteSticky(pod, record));
        }
        for refusal in &batch.refusals {
            if gated[refusal.cause] {
                round.kept.insert(refusal.request);
                continue;
            }
            let calls = self.proof_calls(&round.requests[refusal.cause], &refusal.error, now);
            if !calls.is_empty() {
                round.kept.insert(refusal.request);
                calls.into_iter().for_each(|call| round.add(call));
            }
        }
        for (write, held) in batch.writes.iter().zip(held) {
            round.write_calls.push((!held).then_some(round.calls.len()));
            if !held {
                round.calls.push(BlockCall::Write(write.clone()));
            }
        }
        round.batch = Some(batch);
        round
    }

    /// Whether a write would probably conflict, or would destroy what cannot be read.
    fn must_read_first(&self, write: &BlockWrite) -> bool {
        let id = write.id();
        if self.view.is_unreadable(&id) {
            return true;
        }
        let unread = self.view.summary(&id).filter(|_| self.view.get(&id).is_none());
        unread.is_some_and(|block| {
            let unnamed = u32::from(block.used).saturating_sub(block.assigned_offsets.count_ones());
            unnamed > u32::from(MAX_USED_WITHOUT_READ)
        })
    }

    /// Adds a pointer to the address to the pod's record. Returns whether the API server has it already.
    fn point_to(
        &self,
        request: &AddressRequest,
        pool: &AddressPool,
        address: IpAddr,
        pointers: &mut BTreeMap<PodName, StickyRecord>,
    ) -> bool {
        let pod = pod_name(request);
        let known = self.sticky.get(&pod);
        let pointer = StickyAddress {
            interface: request.interface.clone(),
            ordinal: request.ordinal,
            space: pool.space().clone(),
            address,
        };
        if known.is_some_and(|record| record.addresses.contains(&pointer)) {
            return true;
        }
        pointers.entry(pod).or_insert_with(|| known.cloned().unwrap_or_default()).set(pointer);
        false
    }

    /// Returns the calls that prove that the request must be refused. None are needed if that is known.
    fn proof_calls(&self, request: &AddressRequest, error: &Error, now: Duration) -> Vec<BlockCall> {
        let of_address = |address: IpAddr| {
            let spaces: BTreeSet<_> = request.pools.iter().map(|pool| pool.space()).collect();
            let ids = spaces.into_iter().map(move |space| IpBlockId::containing(space, address).0);
            ids.filter(|id| !self.knowledge.is_proven(id, now)).map(BlockCall::Read).collect()
        };
        match error {
            Error::Exhausted { .. } => {
                request.pools.iter().flat_map(|pool| self.knowledge.prove(pool, now)).collect()
            }
            Error::RequestedInUse { address, .. } => of_address(*address),
            Error::StillInUse { holder } => of_address(holder.address),
            Error::RecordsUnreadable { .. } => {
                let blocks = request.pools.iter().flat_map(|pool| self.view.blocks_of(pool));
                let unreadable = blocks.map(|(id, _)| id).filter(|id| self.view.is_unreadable(id));
                let unproven = unreadable.filter(|id| !self.knowledge.is_proven(id, now));
                unproven.cloned().map(BlockCall::Read).collect()
            }
            _ => Vec::new(),
        }
    }
}

pub(super) fn pod_name(request: &AddressRequest) -> PodName {
    (request.pod.namespace.clone(), request.pod.name.clone())
}

/// Returns the pool of the request that the address was assigned from.
pub(super) fn pool_of(request: &AddressRequest, address: IpAddr) -> Option<&Arc<AddressPool>> {
    let offered = request.pools.iter().find(|pool| pool.contains(address));
    offered.or_else(|| request.pools.iter().find(|pool| pool.can_keep(address)))
}
