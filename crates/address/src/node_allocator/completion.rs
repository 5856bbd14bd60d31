//! Takes the results of a round of calls, and answers the requests that are done.

use super::calls::{BlockCall, CallOutcome};
use super::planning::{RoundPlan, pod_name, pool_of};
use super::queue::{AllocationReply, PendingAssignment};
use super::{NodeAllocator, PodName};
use crate::batch::BlockWrite;
use ferroband_model::Fault;

/// Result of one write of a batch.
#[derive(Clone, Debug)]
pub(super) enum BlockWriteOutcome {
    Written,
    /// Nothing was written, because another writer was first.
    Conflict,
    /// The write may or may not have succeeded.
    Unknown,
    /// The API server rejected the write permanently.
    Rejected(Fault),
    /// The write waits for other calls.
    Held,
}

impl<T> NodeAllocator<T> {
    /// Takes the results of the calls that [`Self::next_calls`] returned, in the same order. Returns `false` if the
    /// caller should wait before the next round, because the API server is not available.
    pub fn finish_calls(&mut self, outcomes: Vec<CallOutcome>) -> bool {
        let Some(round) = self.in_flight.take() else { return true };
        let calls = round.calls.clone();
        let mut available = true;
        let mut written = vec![None; calls.len()];
        for (position, (call, outcome)) in calls.into_iter().zip(outcomes).enumerate() {
            let is_write = matches!(call, BlockCall::Write(_));
            let result = self.take_outcome(call, outcome, &round);
            available &= !matches!(result, BlockWriteOutcome::Unknown);
            if is_write {
                written[position] = Some(result);
            }
        }
        let results = round.write_calls.iter().map(|call| {
            let result = call.and_then(|call| written.get_mut(call)?.take());
            result.unwrap_or(BlockWriteOutcome::Held)
        });
        let results: Vec<_> = results.collect();
        // A rejected write must not delay the others. If nothing else is written, pause before the next attempt.
        let rejected = results.iter().any(|result| matches!(result, BlockWriteOutcome::Rejected(_)));
        let succeeded = results.iter().any(|result| matches!(result, BlockWriteOutcome::Written));
        self.complete(round, results);
        available && (!rejected || succeeded)
    }

    /// Updates what the node knows. Returns `Unknown` if the API server is not available.
    fn take_outcome(
        &mut self,
        call: BlockCall,
        outcome: CallOutcome,
        round: &RoundPlan,
    ) -> BlockWriteOutcome {
        let (number, now) = (self.round, round.issued);
        match (call, outcome) {
            (BlockCall::Write(_), CallOutcome::Block(Some((block, version)))) => {
                self.knowledge.note_seen(block.id(), number, now);
                self.view.observe(block, version);
            }
            (BlockCall::Write(write), CallOutcome::Rejected(fault)) => {
                drop(write);
                return BlockWriteOutcome::Rejected(fault);
            }
            (BlockCall::Write(write), CallOutcome::Unavailable) => {
                self.knowledge.note_unknown_write(write.id(), now);
                return BlockWriteOutcome::Unknown;
            }
            (BlockCall::Write(write), _) => {
                self.knowledge.uncertain.insert(write.id());
                return BlockWriteOutcome::Conflict;
            }
            (BlockCall::Read(id), CallOutcome::Block(found)) => {
                match found {
                    Some((block, version)) => self.view.observe(block, version),
                    None => self.view.remove(&id),
                }
                self.knowledge.note_seen(id, number, now);
            }
            (BlockCall::Read(id), CallOutcome::Rejected(_)) => {
                self.view.mark_unreadable(id.object_name());
                self.knowledge.note_seen(id, number, now);
            }
            (BlockCall::ListOwn, CallOutcome::Blocks { blocks, unreadable }) => {
                for (block, _) in &blocks {
                    self.knowledge.note_seen(block.id(), number, now);
                }
                self.view.replace_own(blocks, unreadable);
                self.knowledge.note_own_listed(now);
            }
            (BlockCall::ListSpace(scope), CallOutcome::Blocks { blocks, unreadable }) => {
                for (block, _) in blocks.iter().filter(|(block, _)| block.is_used_by(&self.node)) {
                    self.knowledge.note_seen(block.id(), number, now);
                }
                self.view.replace_scope(&scope, &self.node, blocks, unreadable);
                self.knowledge.note_listed(scope, now);
            }
            (BlockCall::ReadIndex(space), outcome) => {
                // The index is a hint. Without it, the node needs more requests.
                if let CallOutcome::Index(index) = outcome {
                    self.view.replace_index(&space, &index);
                }
                self.knowledge.note_indexed(&space, now);
            }
            (BlockCall::ReadSticky(pod), CallOutcome::Sticky(record)) => {
                // The node reads the blocks that the pointers name, unless it uses them itself.
                let unknown = record.blocks().filter(|id| self.view.get(id).is_none());
                self.knowledge.uncertain.extend(unknown);
                self.sticky.insert(pod, record);
            }
            (BlockCall::WriteSticky(pod, _), CallOutcome::Sticky(record)) => {
                self.sticky.insert(pod, record);
            }
            (BlockCall::ReadSticky(pod) | BlockCall::WriteSticky(pod, _), CallOutcome::Rejected(fault)) => {
                self.pending_of(&pod).for_each(|pending| pending.refused = Some(fault.clone()));
            }
            (BlockCall::WriteSticky(pod, _), CallOutcome::Conflict) => {
                self.sticky.remove(&pod);
                self.pending_of(&pod).for_each(|pending| pending.attempts += 1);
            }
            _ => return BlockWriteOutcome::Unknown,
        }
        BlockWriteOutcome::Written
    }

    /// Returns the queued requests of a StatefulSet pod.
    fn pending_of(&mut self, pod: &PodName) -> impl Iterator<Item = &mut PendingAssignment<T>> {
        self.queue.assignments.iter_mut().filter(move |pending| {
            pending.sandbox.requests.iter().any(|request| request.sticky && pod_name(request) == *pod)
        })
    }

    /// Answers the requests that the round served or refused. The others stay in the queue.
    pub(super) fn complete(&mut self, round: RoundPlan, results: Vec<BlockWriteOutcome>) {
        let Some(batch) = round.batch else { return self.answer_refused() };
        let result = |write: usize| results.get(write).unwrap_or(&BlockWriteOutcome::Held);
        let mut needed = batch.releases.iter();
        // `needed` has one element for each queued release, in the same order.
        let is_done = |_: &mut (_, T)| {
            let written = |write: &usize| matches!(result(*write), BlockWriteOutcome::Written);
            needed.next().is_some_and(|writes| writes.iter().all(written))
        };
        let done = self.queue.releases.extract_if(.., is_done);
        self.replies.extend(done.map(|(_, ticket)| (ticket, AllocationReply::Released)));

        let mut position = 0;
        let mut assigned = batch.assignments.into_iter().peekable();
        let mut refusals = batch.refusals.into_iter().peekable();
        for mut pending in std::mem::take(&mut self.queue.assignments) {
            let (begin, end) = (position, position + pending.sandbox.requests.len());
            position = end;
            let mut ips = Vec::with_capacity(end - begin);
            let mut answer = (begin..end).all(|request| !round.kept.contains(&request)).then_some(Ok(()));
            let mut conflict = false;
            while let Some(assignment) = assigned.next_if(|assignment| assignment.request < end) {
                ips.push((assignment.address, assignment.gateway));
                let outcome = assignment.write.map(result);
                let adds = assignment.write.is_some_and(|w| matches!(batch.writes[w], BlockWrite::Add(_)));
                if let Some(BlockWriteOutcome::Written | BlockWriteOutcome::Conflict) =
                    outcome.filter(|_| adds)
                    && let Some(request) = round.requests.get(assignment.request)
                    && let Some(pool) = pool_of(request, assignment.address.addr())
                {
                    let lost = matches!(outcome, Some(BlockWriteOutcome::Conflict));
                    self.view.note_assignment(pool, lost);
                    self.knowledge.note_probe(pool, lost);
                }
                conflict |= matches!(outcome, Some(BlockWriteOutcome::Conflict));
                answer = match (outcome, answer) {
                    (None | Some(BlockWriteOutcome::Written), answer) => answer,
                    (_, Some(Err(fault))) => Some(Err(fault)),
                    (Some(BlockWriteOutcome::Rejected(fault)), _) => Some(Err(fault.clone())),
                    (
                        Some(
                            BlockWriteOutcome::Conflict
                            | BlockWriteOutcome::Unknown
                            | BlockWriteOutcome::Held,
                        ),
                        _,
                    ) => None,
                };
            }
            while let Some(refusal) = refusals.next_if(|refusal| refusal.request < end) {
                if answer.is_some() {
                    answer = Some(Err(refusal.error.fault(&pending.sandbox.what)));
                }
            }
            pending.attempts += u32::from(conflict);
            match answer {
                // If the caller has given up, the assigned addresses stay until the sandbox is released.
                Some(answer) => {
                    let reply = AllocationReply::Assigned(answer.map(|()| ips));
                    self.replies.push((pending.ticket, reply));
                }
                None => self.queue.assignments.push(pending),
            }
        }
        self.answer_refused();
    }

    fn answer_refused(&mut self) {
        for pending in self.queue.assignments.extract_if(.., |pending| pending.refused.is_some()) {
            let fault = pending.refused.unwrap_or_else(|| super::timeout_fault(&pending.sandbox.what));
            self.replies.push((pending.ticket, AllocationReply::Assigned(Err(fault))));
        }
    }
}
