//! What waits for the committer, and what each gets when a round is over.

use super::{
    allocator::{AllocatorRequest, IpWithGateway, timeout_fault},
    batch::WriteBatch,
};
use ferroband_address::{AddressRelease, AddressRequest};
use ferroband_model::Fault;
use tokio::{sync::oneshot, time::Instant};

/// An assignment that is not done.
pub(super) struct PendingAssignment {
    pub requests: Vec<AddressRequest>,
    what: String,
    deadline: Instant,
    reply: oneshot::Sender<Result<Vec<IpWithGateway>, Fault>>,
}

/// What is waiting to be done.
#[derive(Default)]
pub(super) struct AllocationQueue {
    pub assignments: Vec<PendingAssignment>,
    pub releases: Vec<(AddressRelease, oneshot::Sender<()>)>,
}

/// How one write ended.
pub(super) enum BlockWriteOutcome {
    /// It is in etcd.
    Written,
    /// Somebody else was first; the ledger knows the new state.
    Conflict,
    /// Not known; tried again after a pause.
    Unknown,
    /// The API server does not want it.
    Rejected(Fault),
}

impl AllocationQueue {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.assignments.is_empty() && self.releases.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.assignments.len() + self.releases.len()
    }

    /// Take an order in.
    pub fn push(&mut self, order: AllocatorRequest) {
        match order {
            AllocatorRequest::Assign { requests, what, deadline: until, reply: answer } => {
                self.assignments.push(PendingAssignment { requests, what, deadline: until, reply: answer });
            }
            AllocatorRequest::Release { release, reply: answer } => {
                // A sandbox that is gone has no use for what it had ordered.
                self.assignments.retain(|assignment| {
                    let same = |request: &AddressRequest| {
                        request.container == release.container
                            && release.interface.as_ref().is_none_or(|name| *name == request.interface)
                    };
                    !assignment.requests.iter().any(same)
                });
                self.releases.push((release, answer));
            }
        }
    }

    /// Forget what nobody waits for any more. A release whose caller has gone is owed, and comes again from there.
    pub fn expire(&mut self) {
        let now = Instant::now();
        self.releases.retain(|(_, answer)| !answer.is_closed());
        for late in self.assignments.extract_if(.., |a| a.deadline <= now || a.reply.is_closed()) {
            // Nobody may be listening.
            let _ = late.reply.send(Err(timeout_fault(&late.what)));
        }
    }

    /// Answer what is decided, keep the rest.
    pub fn complete(&mut self, round: WriteBatch, outcomes: &[BlockWriteOutcome]) {
        let written = |position: &usize| matches!(outcomes[*position], BlockWriteOutcome::Written);
        let mut needed = round.releases.iter();
        // `needed` has one element for each release, in their order.
        let done = |_: &mut (AddressRelease, oneshot::Sender<()>)| {
            needed.next().is_none_or(|w| w.iter().all(written))
        };
        for (_, answer) in self.releases.extract_if(.., done) {
            let _ = answer.send(());
        }

        let mut position = 0;
        let mut answers = round.answers.into_iter().peekable();
        let mut refusals = round.refusals.into_iter().peekable();
        for assignment in std::mem::take(&mut self.assignments) {
            let end = position + assignment.requests.len();
            let mut places = Vec::with_capacity(assignment.requests.len());
            let mut verdict = Some(Ok(()));
            while let Some(answer) = answers.next_if(|answer| answer.request < end) {
                places.push((answer.address, answer.gateway));
                match answer.write.map(|write| &outcomes[write]) {
                    None | Some(BlockWriteOutcome::Written) => {}
                    Some(BlockWriteOutcome::Rejected(fault)) => verdict = Some(Err(fault.clone())),
                    Some(BlockWriteOutcome::Conflict | BlockWriteOutcome::Unknown)
                        if matches!(verdict, Some(Err(_))) => {}
                    Some(BlockWriteOutcome::Conflict | BlockWriteOutcome::Unknown) => verdict = None,
                }
            }
            while let Some(refusal) = refusals.next_if(|refusal| refusal.request < end) {
                verdict = Some(Err(refusal.error.fault(&assignment.what)));
            }
            position = end;
            match verdict {
                // The receiver may have gone; its sandbox is released like any other.
                Some(verdict) => drop(assignment.reply.send(verdict.map(|()| places))),
                None => self.assignments.push(assignment),
            }
        }
    }
}
