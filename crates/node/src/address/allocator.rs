//! Front end of the address allocator: passes assignment and release requests to the batch writer and waits
//! for its replies.

use super::{AssignmentGate, BatchWriter, BlockStore, OwnBlocks};
use ferroband_address::{AddressRelease, AddressRequest, IpWithGateway};
use ferroband_model::{Fault, FaultCode};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// How long an ADD waits for its addresses before it fails with "try again later".
const ASSIGN_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of requests that wait for the batch writer. Further callers wait until the queue has room.
const QUEUE_LENGTH: usize = 1024;

#[derive(Debug)]
pub(super) enum AllocatorRequest {
    /// Assigns all requested addresses of one sandbox, or none of them.
    Assign {
        /// Each request asks for one address.
        requests: Vec<AddressRequest>,
        /// Object that the error names if the assignment fails, for example `network default/a`.
        what: String,
        /// Whether the sandbox has the addresses already.
        restore: bool,
        deadline: Instant,
        ticket: AllocatorTicket,
    },
    Release {
        release: AddressRelease,
        ticket: AllocatorTicket,
    },
}

/// Receives the answer to a request.
#[derive(Debug)]
pub(super) enum AllocatorTicket {
    /// Receives the addresses in the order of the requests.
    Assign(oneshot::Sender<Result<Vec<IpWithGateway>, Fault>>),
    /// Signalled after the API server has accepted the release.
    Release(oneshot::Sender<()>),
}

impl AllocatorTicket {
    /// Whether the caller still waits.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Self::Assign(reply) => !reply.is_closed(),
            Self::Release(reply) => !reply.is_closed(),
        }
    }
}

/// Sends requests to the batch writer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AllocatorHandle {
    requests: mpsc::Sender<AllocatorRequest>,
    pub(super) assign_timeout: Duration,
}

/// Creates a handle and its batch writer, which the caller must run.
pub fn create_allocator<S: BlockStore>(
    blocks: Arc<OwnBlocks>,
    gate: AssignmentGate,
    store: S,
) -> (AllocatorHandle, BatchWriter<S>) {
    let (requests, receiver) = mpsc::channel(QUEUE_LENGTH);
    (
        AllocatorHandle { requests, assign_timeout: ASSIGN_TIMEOUT },
        BatchWriter::new(blocks, gate, store, receiver),
    )
}

impl AllocatorHandle {
    /// Assigns one address per request and returns them in the same order. All requests must belong to one
    /// sandbox. `what` is the object that the error names if the assignment fails.
    pub async fn assign(
        &self,
        what: String,
        requests: Vec<AddressRequest>,
    ) -> Result<Vec<IpWithGateway>, Fault> {
        self.send_assignment(what, requests, false).await
    }

    /// Writes addresses that a sandbox has already. This is allowed while no new addresses may be assigned.
    pub async fn restore(
        &self,
        what: String,
        requests: Vec<AddressRequest>,
    ) -> Result<Vec<IpWithGateway>, Fault> {
        self.send_assignment(what, requests, true).await
    }

    async fn send_assignment(
        &self,
        what: String,
        requests: Vec<AddressRequest>,
        restore: bool,
    ) -> Result<Vec<IpWithGateway>, Fault> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, response) = oneshot::channel();
        let deadline = Instant::now() + self.assign_timeout;
        let ticket = AllocatorTicket::Assign(reply);
        let request = AllocatorRequest::Assign { requests, what: what.clone(), restore, deadline, ticket };
        let exchange = async {
            self.requests.send(request).await.ok()?;
            response.await.ok()
        };
        // The batch writer answers at the deadline with the reason, unless it waits for the API server itself.
        let limit = self.assign_timeout + self.assign_timeout / 50;
        timeout(limit, exchange).await.ok().flatten().unwrap_or_else(|| Err(timeout_fault(&what)))
    }

    /// Frees the addresses that `release` selects. Returns `false` if the API server did not accept the write
    /// within `limit`. The caller must then retry the release later.
    pub async fn release(&self, release: AddressRelease, limit: Duration) -> bool {
        let (reply, response) = oneshot::channel();
        let ticket = AllocatorTicket::Release(reply);
        let exchange = async {
            self.requests.send(AllocatorRequest::Release { release, ticket }).await.ok()?;
            response.await.ok()
        };
        timeout(limit, exchange).await.ok().flatten().is_some()
    }
}

fn timeout_fault(what: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("addresses of {what}"),
        "the API server did not accept the assignment in time",
        "no action needed, the pod is retried automatically; check that the API server is up",
    )
}
