//! The loop of a node that assigns and releases addresses, without I/O and without a clock.
//!
//! ```text
//!  push_assignment, push_release ─▶ queue ──plan──▶ next_calls ──▶ caller executes them at the same time
//!                                     ▲                                      │
//!        take_replies ◀── replies ◀───┴──────── finish_calls ◀───────────────┘ results: blocks, conflicts, failures
//! ```
//!
//! One round of calls serves all queued requests, with one write per block. Requests that arrive meanwhile share the next
//! round. The node plans with what it knows ([`BlockView`]). A write that does not fit the stored block conflicts, and
//! then the block is read before the next plan. After some conflicts in a pool, the index of its space is read, and then
//! the list of its blocks. A request is refused only if reads or a list of the last seconds prove the reason.

mod calls;
mod completion;
mod knowledge;
mod planning;
mod queue;
mod write_batch;

pub use calls::{BlockCall, CallOutcome, PodName};
pub use queue::{AllocationReply, IpWithGateway, SandboxRequest};

use crate::batch::AddressRelease;
use crate::block_view::BlockView;
use crate::ip_space::IpSpace;
use crate::pool::AddressPool;
use crate::sticky::StickyRecord;
use ferroband_model::Fault;
use knowledge::BlockKnowledge;
use planning::RoundPlan;
use queue::{AllocationQueue, PendingAssignment, timeout_fault};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Tells why no new address of a pool may be assigned now; `None` if it may.
pub type PoolGate<'a> = &'a dyn Fn(&AddressPool) -> Option<Fault>;

/// Addresses that may not be assigned to new owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedAddresses {
    /// `None` for all spaces.
    pub space: Option<IpSpace>,
    pub first: IpAddr,
    pub last: IpAddr,
}

impl BlockedAddresses {
    pub fn applies_to(&self, space: &IpSpace) -> bool {
        self.space.as_ref().is_none_or(|blocked| blocked == space)
    }
}

/// Assigns and releases the addresses of one node. `T` identifies the requests for the caller. Times are durations since
/// any fixed moment.
#[derive(Debug)]
pub struct NodeAllocator<T> {
    node: String,
    node_count: usize,
    view: BlockView,
    knowledge: BlockKnowledge,
    blocked: Vec<BlockedAddresses>,
    /// Pointers of the StatefulSet pods whose requests are queued.
    sticky: BTreeMap<PodName, StickyRecord>,
    /// Requests since the last call of [`Self::next_calls`].
    incoming: Vec<QueuedRequest<T>>,
    queue: AllocationQueue<T>,
    /// Number of rounds of calls so far.
    round: u64,
    in_flight: Option<RoundPlan>,
    replies: Vec<(T, AllocationReply)>,
}

#[derive(Debug)]
enum QueuedRequest<T> {
    Assign(SandboxRequest, T),
    Release(AddressRelease, T),
}

impl<T> NodeAllocator<T> {
    /// Creates the allocator of a node. It lists the node's blocks first.
    pub fn new(node: impl Into<String>) -> Self {
        let node = node.into();
        Self {
            // Until the nodes are counted, assume a huge cluster, in which a node never claims a whole block.
            node_count: usize::MAX,
            view: BlockView::default(),
            knowledge: BlockKnowledge::new(&node),
            node,
            blocked: Vec::new(),
            sticky: BTreeMap::new(),
            incoming: Vec::new(),
            queue: AllocationQueue::default(),
            round: 0,
            in_flight: None,
            replies: Vec::new(),
        }
    }

    /// Sets the number of nodes in the cluster. A node claims whole blocks only while a pool has several per node.
    pub fn set_node_count(&mut self, count: usize) {
        self.node_count = count;
    }

    /// Sets the addresses that may not be assigned to new owners. Their owners keep them.
    pub fn set_blocked(&mut self, blocked: Vec<BlockedAddresses>) {
        self.blocked = blocked;
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn view(&self) -> &BlockView {
        &self.view
    }

    /// Whether the blocks of the node have been listed, at the start and after [`Self::relist`].
    pub fn is_synced(&self) -> bool {
        self.knowledge.synced
    }

    /// Lists the blocks of the node again before the next plan, because others may have changed its entries.
    pub fn relist(&mut self) {
        (self.knowledge.own_listed, self.knowledge.synced) = (false, false);
    }

    pub fn push_assignment(&mut self, sandbox: SandboxRequest, ticket: T) {
        self.incoming.push(QueuedRequest::Assign(sandbox, ticket));
    }

    /// Queues a release. It cancels the queued assignments of its sandbox, whose tickets are dropped.
    pub fn push_release(&mut self, release: AddressRelease, ticket: T) {
        self.incoming.push(QueuedRequest::Release(release, ticket));
    }

    /// Returns the number of requests that are not answered.
    pub fn pending(&self) -> usize {
        self.incoming.len() + self.queue.len()
    }

    /// Returns the largest number of conflicts that a queued request has had.
    pub fn attempts(&self) -> u32 {
        self.queue.assignments.iter().map(|pending| pending.attempts).max().unwrap_or_default()
    }

    /// Returns when the next queued request expires.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.queue.assignments.iter().map(|pending| pending.sandbox.deadline).min()
    }

    /// Drops the requests whose callers no longer wait.
    pub fn retain(&mut self, waits: impl Fn(&T) -> bool) {
        self.queue.assignments.retain(|pending| waits(&pending.ticket));
        self.queue.releases.retain(|(_, ticket)| waits(ticket));
    }

    /// Returns the answers that are ready.
    pub fn take_replies(&mut self) -> Vec<(T, AllocationReply)> {
        std::mem::take(&mut self.replies)
    }

    /// Returns the calls of the next round, which the caller executes at the same time and passes to
    /// [`Self::finish_calls`]. There are none if no request is queued, or if all queued requests wait for `gate`.
    pub fn next_calls(&mut self, now: Duration, gate: PoolGate<'_>) -> Vec<BlockCall> {
        self.accept_incoming();
        self.expire(now, gate);
        let round = self.plan_round(now, gate);
        if round.calls.is_empty() {
            self.complete(round, Vec::new());
            if self.queue.is_empty() {
                self.knowledge.end_requests(now);
                self.view.summarize_others(&self.node);
                self.sticky.clear();
            }
            return Vec::new();
        }
        self.round += 1;
        let calls = round.calls.clone();
        self.in_flight = Some(round);
        calls
    }

    /// Returns the pool as it may be used now: without blocked addresses, or closed if `gate` refuses it.
    fn permitted(&self, pool: &Arc<AddressPool>, gate: PoolGate<'_>) -> (Arc<AddressPool>, bool) {
        if gate(pool).is_some() {
            return (Arc::new(pool.closed()), true);
        }
        let mut blocked = self.blocked.iter().filter(|blocked| blocked.applies_to(pool.space())).peekable();
        match blocked.peek() {
            None => (pool.clone(), false),
            Some(_) => (Arc::new(pool.withholding(blocked.map(|range| (range.first, range.last)))), false),
        }
    }

    fn accept_incoming(&mut self) {
        for request in std::mem::take(&mut self.incoming) {
            match request {
                QueuedRequest::Assign(sandbox, ticket) => {
                    let (arrived, attempts, refused) = (self.round, 0, None);
                    let pending = PendingAssignment { sandbox, ticket, arrived, attempts, refused };
                    self.queue.assignments.push(pending);
                }
                QueuedRequest::Release(release, ticket) => {
                    self.queue.cancel(&release);
                    self.queue.releases.push((release, ticket));
                }
            }
        }
    }

    fn expire(&mut self, now: Duration, gate: PoolGate<'_>) {
        let expired = self.queue.assignments.extract_if(.., |pending| pending.sandbox.deadline <= now);
        for PendingAssignment { sandbox, ticket, .. } in expired {
            let refused = |pools: &[Arc<AddressPool>]| pools.iter().find_map(|pool| gate(pool));
            let gated = sandbox.requests.iter().filter(|_| !sandbox.restore);
            let fault = gated.filter_map(|request| refused(&request.pools)).next();
            let fault = fault.unwrap_or_else(|| timeout_fault(&sandbox.what));
            self.replies.push((ticket, AllocationReply::Assigned(Err(fault))));
        }
    }
}

#[cfg(test)]
mod tests;
