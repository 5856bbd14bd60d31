//! Executes the calls of the node's allocator: reads and writes address blocks for all requests of the node.

use super::{
    AssignmentGate, BlockStore, OwnBlocks,
    allocator::{AllocatorRequest, AllocatorTicket},
};
use ferroband_address::{
    AddressPool, AllocationReply, BlockCall, BlockedAddresses, IpSpace, NodeAllocator, SandboxRequest,
};
use ferroband_api::ferroband::BlockedAddressRange;
use ferroband_daemon::Retry;
use ferroband_model::Fault;
use futures::future::join_all;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;

/// Initial and maximum pause between attempts while the API server is unavailable. Each failure doubles the
/// pause.
const OUTAGE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Initial and maximum pause between attempts of a request with many conflicts.
const CONFLICT_BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Number of conflicts of a request before the writer pauses between attempts.
const MAX_EAGER_RETRIES: u32 = 8;

/// Pause after a round of calls for several requests: this multiple of the time that the round took, up to this
/// maximum. Requests that arrive during the pause share one write, and the API server has time for other
/// clients.
const BATCHING_PAUSE: (u32, Duration) = (3, Duration::from_millis(20));

/// Pause while all requests wait for permission to assign, or for an object that cannot be read.
const BLOCKED_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two checks whether the node's blocks must be listed again.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);

/// Receives the requests of all allocator handles, and reads and writes blocks until they are served.
pub struct BatchWriter<S> {
    node_count: Arc<AtomicUsize>,
    blocks: Arc<OwnBlocks>,
    gate: AssignmentGate,
    store: S,
    requests: mpsc::Receiver<AllocatorRequest>,
    /// Zero of the allocator's clock.
    start: Instant,
    /// Whether the import of foreign records was complete when the own blocks were listed.
    imported: bool,
    blocked: Vec<BlockedAddresses>,
}

/// Result of one round of calls.
enum RoundResult {
    /// No call is possible now.
    Idle,
    Done {
        /// Whether blocks were written, and not only read.
        wrote: bool,
    },
    /// The API server is unavailable.
    Unavailable,
}

impl<S: BlockStore> BatchWriter<S> {
    pub(super) fn new(
        blocks: Arc<OwnBlocks>,
        gate: AssignmentGate,
        store: S,
        requests: mpsc::Receiver<AllocatorRequest>,
    ) -> Self {
        let node_count = Arc::new(AtomicUsize::new(usize::MAX));
        let (start, imported, blocked) = (Instant::now(), false, Vec::new());
        Self { node_count, blocks, gate, store, requests, start, imported, blocked }
    }

    /// Returns the number of nodes in the cluster, which the caller must keep current. A node claims whole
    /// blocks for itself only while the pool has several free blocks per node.
    pub fn node_count(&self) -> Arc<AtomicUsize> {
        self.node_count.clone()
    }

    /// Runs until every allocator handle is dropped.
    pub async fn run(mut self) {
        let mut retry = Retry::new(OUTAGE_BACKOFF.0, OUTAGE_BACKOFF.1);
        let mut conflicts = Retry::new(CONFLICT_BACKOFF.0, CONFLICT_BACKOFF.1);
        let mut gate_changes = self.gate.changes();
        let mut not_before = Instant::now();
        loop {
            sleep_until(not_before).await;
            while let Ok(request) = self.requests.try_recv() {
                self.push(request);
            }
            // A single request is written at once, without a pause for batching.
            let burst = self.blocks.with(|allocator| allocator.pending()) > 1;
            let begin = Instant::now();
            self.take_gate_state();
            let result = self.run_round().await;
            not_before = Instant::now();
            // A read after a conflict does not delay the write that follows.
            if burst && matches!(result, RoundResult::Done { wrote: true }) {
                not_before += (begin.elapsed() * BATCHING_PAUSE.0).min(BATCHING_PAUSE.1);
            }
            match result {
                RoundResult::Done { .. } => {
                    retry.succeeded();
                    // Repeated conflicts mean that other nodes write the same blocks at the same rate.
                    match self.blocks.with(|allocator| allocator.attempts()) > MAX_EAGER_RETRIES {
                        true => conflicts.pause().await,
                        false => drop(conflicts.succeeded()),
                    }
                }
                // Requests that arrive during the pause join the next batch.
                RoundResult::Unavailable => retry.pause().await,
                RoundResult::Idle => {
                    let (pending, deadline) =
                        self.blocks.with(|allocator| (allocator.pending() > 0, allocator.next_deadline()));
                    let until_deadline = deadline.map(|deadline| deadline.saturating_sub(self.now()));
                    let pause = if pending { BLOCKED_PAUSE } else { IDLE_INTERVAL };
                    let pause = until_deadline.map_or(pause, |left| pause.min(left));
                    tokio::select! {
                        request = self.requests.recv() => match request {
                            Some(request) => self.push(request),
                            None => return,
                        },
                        // `changed` cannot fail, because `self` owns the sender.
                        _ = gate_changes.changed() => {}
                        () = self.blocks.relist_requested() => {}
                        () = sleep(pause) => {}
                    }
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn push(&self, request: AllocatorRequest) {
        self.blocks.with(|allocator| match request {
            AllocatorRequest::Assign { requests, what, restore, deadline, ticket } => {
                let deadline = deadline.saturating_duration_since(self.start);
                allocator.push_assignment(SandboxRequest { requests, what, deadline, restore }, ticket);
            }
            AllocatorRequest::Release { release, ticket } => allocator.push_release(release, ticket),
        });
    }

    /// Takes the blocked ranges. When foreign records have been imported, lists the own blocks again, because the leader
    /// has written entries for the pods of this node.
    fn take_gate_state(&mut self) {
        let inputs = self.gate.changes();
        let inputs = inputs.borrow();
        let status = inputs.state.as_ref().and_then(|state| state.status.as_ref());
        let imported = status.is_some_and(|status| status.imports.are_complete());
        let newly_imported = imported && !std::mem::replace(&mut self.imported, imported);
        let blocked = status.iter().flat_map(|status| &status.blocked_ranges).filter_map(blocked_addresses);
        self.blocked = blocked.collect();
        self.blocks.with(|allocator| {
            allocator.set_blocked(self.blocked.clone());
            if newly_imported {
                allocator.relist();
            }
        });
    }

    async fn run_round(&self) -> RoundResult {
        let refusal = |pool: &AddressPool| self.refusal(pool);
        let (calls, pending) = self.blocks.with(|allocator| {
            allocator.set_node_count(self.node_count.load(Ordering::Relaxed));
            // A DEL whose release timed out leaves a pending-release file, from which the release is retried.
            allocator.retain(AllocatorTicket::is_awaited);
            let calls = allocator.next_calls(self.now(), &refusal);
            (calls, allocator.pending())
        });
        let result = if calls.is_empty() {
            RoundResult::Idle
        } else {
            let node = self.blocks.with(|allocator| allocator.node().to_owned());
            let outcomes = join_all(calls.iter().map(|call| self.store.execute(&node, call))).await;
            debug!(pending, calls = calls.len(), "executed a round of address block calls");
            match self.blocks.with(|allocator| allocator.finish_calls(outcomes)) {
                true => {
                    RoundResult::Done { wrote: calls.iter().any(|call| matches!(call, BlockCall::Write(_))) }
                }
                false => RoundResult::Unavailable,
            }
        };
        for (ticket, reply) in self.blocks.with(NodeAllocator::take_replies) {
            // Sending fails if the caller has given up, which is fine.
            match (ticket, reply) {
                (AllocatorTicket::Assign(ticket), AllocationReply::Assigned(result)) => {
                    drop(ticket.send(result));
                }
                (AllocatorTicket::Release(ticket), AllocationReply::Released) => drop(ticket.send(())),
                _ => {}
            }
        }
        result
    }

    /// Returns why no new address of the pool may be assigned now. A pool of which only some addresses are blocked may be
    /// used.
    fn refusal(&self, pool: &AddressPool) -> Option<Fault> {
        let refusal = |range| self.gate.refusal(pool.space(), range);
        let fault = self.gate.closed().or_else(|| pool.ranges().find_map(refusal))?;
        let blocked = self.blocked.iter().filter(|blocked| blocked.applies_to(pool.space()));
        let open = pool.withholding(blocked.map(|blocked| (blocked.first, blocked.last)));
        open.ranges().all(|range| refusal(range).is_some()).then_some(fault)
    }
}

/// Returns the addresses of a blocked range. A range that cannot be read blocks its space, which the gate knows.
fn blocked_addresses(blocked: &BlockedAddressRange) -> Option<BlockedAddresses> {
    let (first, last) = blocked.range.split_once('-')?;
    Some(BlockedAddresses {
        space: blocked.space.as_deref().map(IpSpace::from_text),
        first: first.trim().parse().ok()?,
        last: last.trim().parse().ok()?,
    })
}
