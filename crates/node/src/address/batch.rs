//! One batch of assignments and releases: which address blocks must be written for it, the requests that wait for it,
//! and the replies to them after it is written. Does no I/O.

use super::allocator::{AllocatorRequest, IpWithGateway, timeout_fault};
use ferroband_address::{
    AddressAssignment, AddressPlanner, AddressRelease, AddressRequest, BlockView, BlockWrite, IpBlockId,
    RequestRefusal,
};
use ferroband_model::Fault;
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The block writes of one batch, and the assignments and releases that depend on each write.
#[derive(Debug, Default)]
pub(super) struct WriteBatch {
    /// At most one write per block.
    pub writes: Vec<BlockWrite>,
    /// For each release, the positions in `writes` of the writes that must succeed before the release is
    /// complete.
    pub releases: Vec<Vec<usize>>,
    /// The assigned addresses. Each has the position in `writes` of the write that records it.
    pub assignments: Vec<AddressAssignment>,
    pub refusals: Vec<RequestRefusal>,
    /// Blocks that must be written, but of which the cache has only a summary. The caller must read them and
    /// plan again.
    pub unread: Vec<IpBlockId>,
}

/// Plans `releases` first and then `requests`, so that an address freed in this batch can be assigned again
/// in the same batch. A block that a release and a request both change is written once.
pub(super) fn plan_batch(
    view: &mut BlockView,
    planner: &AddressPlanner<'_>,
    releases: &[AddressRelease],
    requests: &[AddressRequest],
) -> WriteBatch {
    let releasing = AddressPlanner::plan_releases(view, releases);
    let mut by_release = vec![Vec::new(); releases.len()];
    for freed in &releasing.released {
        by_release[freed.release].push(freed.write);
        view.remember_released(
            &releasing.writes[freed.write].block().space,
            freed.address,
            &freed.allocation,
        );
    }

    // Plan the assignments as if the releases had been written. The blocks keep their current versions,
    // because a release and an assignment in the same block become one write. `view` is restored afterwards.
    let mut before = Vec::new();
    for write in &releasing.writes {
        if let BlockWrite::Replace { block, expected } = write {
            if let Some((now, version)) = view.get(&block.id()) {
                before.push((now.into_owned(), version.clone()));
            }
            view.refresh(block.clone(), expected.clone());
        }
    }
    let assigning = planner.plan_assignments(view, requests);
    for (block, version) in before {
        view.refresh(block, version);
    }

    let mut writes = releasing.writes;
    let positions: BTreeMap<_, _> =
        writes.iter().enumerate().map(|(position, write)| (write.block().id(), position)).collect();
    let mut moved = Vec::with_capacity(assigning.writes.len());
    for write in assigning.writes {
        match positions.get(&write.block().id()) {
            Some(position) => {
                writes[*position] = write;
                moved.push(*position);
            }
            None => {
                moved.push(writes.len());
                writes.push(write);
            }
        }
    }
    let mut assignments = assigning.assignments;
    for assignment in &mut assignments {
        assignment.write = assignment.write.map(|position| moved[position]);
    }
    let unread = writes.iter().map(|write| write.block().id()).filter(|id| view.is_compact(id)).collect();
    WriteBatch { writes, releases: by_release, assignments, refusals: assigning.refusals, unread }
}

pub(super) struct PendingAssignment {
    pub requests: Vec<AddressRequest>,
    what: String,
    deadline: Instant,
    reply: oneshot::Sender<Result<Vec<IpWithGateway>, Fault>>,
}

#[derive(Default)]
pub(super) struct AllocationQueue {
    pub assignments: Vec<PendingAssignment>,
    pub releases: Vec<(AddressRelease, oneshot::Sender<()>)>,
}

/// Result of writing one block.
pub(super) enum BlockWriteOutcome {
    Written,
    /// Another writer changed the block first. The cache has the new version.
    Conflict,
    /// The write may or may not have succeeded. The block is read again before the next batch.
    Unknown,
    /// The API server rejected the write permanently.
    Rejected(Fault),
}

impl AllocationQueue {
    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.releases.is_empty()
    }

    pub fn len(&self) -> usize {
        self.assignments.len() + self.releases.len()
    }

    /// Adds a request. A release also cancels the queued assignments of its sandbox.
    pub fn push(&mut self, request: AllocatorRequest) {
        match request {
            AllocatorRequest::Assign { requests, what, deadline, reply } => {
                self.assignments.push(PendingAssignment { requests, what, deadline, reply });
            }
            AllocatorRequest::Release { release, reply } => {
                // A released sandbox no longer needs the addresses that it requested. Dropping the reply channel
                // fails its ADD.
                self.assignments.retain(|assignment| {
                    let same = |request: &AddressRequest| {
                        request.container == release.container
                            && release.interface.as_ref().is_none_or(|name| *name == request.interface)
                    };
                    !assignment.requests.iter().any(same)
                });
                self.releases.push((release, reply));
            }
        }
    }

    /// Drops requests whose callers no longer wait. A DEL whose release timed out leaves a pending-release
    /// file, from which the release is retried.
    pub fn expire(&mut self) {
        let now = Instant::now();
        self.releases.retain(|(_, reply)| !reply.is_closed());
        for expired in self.assignments.extract_if(.., |a| a.deadline <= now || a.reply.is_closed()) {
            // Sending fails if the caller has given up, which is fine.
            let _ = expired.reply.send(Err(timeout_fault(&expired.what)));
        }
    }

    /// Replies to the requests that succeeded, were refused or were rejected. Requests whose write had a conflict
    /// or an unknown result stay in the queue.
    pub fn complete(&mut self, batch: WriteBatch, outcomes: &[BlockWriteOutcome]) {
        let written = |position: &usize| matches!(outcomes[*position], BlockWriteOutcome::Written);
        let mut needed = batch.releases.iter();
        // `needed` has one element for each element of `self.releases`, in the same order.
        let done = |_: &mut (AddressRelease, oneshot::Sender<()>)| {
            needed.next().is_none_or(|w| w.iter().all(written))
        };
        for (_, reply) in self.releases.extract_if(.., done) {
            let _ = reply.send(());
        }

        let mut position = 0;
        let mut assigned = batch.assignments.into_iter().peekable();
        let mut refusals = batch.refusals.into_iter().peekable();
        for assignment in std::mem::take(&mut self.assignments) {
            let end = position + assignment.requests.len();
            let mut ips = Vec::with_capacity(assignment.requests.len());
            let mut result = Some(Ok(()));
            while let Some(address) = assigned.next_if(|address| address.request < end) {
                ips.push((address.address, address.gateway));
                match address.write.map(|write| &outcomes[write]) {
                    None | Some(BlockWriteOutcome::Written) => {}
                    Some(BlockWriteOutcome::Rejected(fault)) => result = Some(Err(fault.clone())),
                    Some(BlockWriteOutcome::Conflict | BlockWriteOutcome::Unknown)
                        if matches!(result, Some(Err(_))) => {}
                    Some(BlockWriteOutcome::Conflict | BlockWriteOutcome::Unknown) => result = None,
                }
            }
            while let Some(refusal) = refusals.next_if(|refusal| refusal.request < end) {
                result = Some(Err(refusal.error.fault(&assignment.what)));
            }
            position = end;
            match result {
                // If the caller has given up, the assigned addresses stay until the sandbox is released.
                Some(result) => drop(assignment.reply.send(result.map(|()| ips))),
                None => self.assignments.push(assignment),
            }
        }
    }
}
