//! Front end of the address allocator: passes assignment and release requests to the batch writer and waits
//! for its replies.

use super::{AddressBlockCache, BatchWriter, BlockStore};
use ferroband_address::{AddressRelease, AddressRequest};
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// How long an ADD waits for its addresses before it fails with "try again later".
const ASSIGN_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of requests that wait for the batch writer. Further callers wait until the queue has room.
const QUEUE_LENGTH: usize = 1024;

/// An assigned address with its prefix length, and the gateway if the pool has one.
pub type IpWithGateway = (IpNet, Option<IpAddr>);

#[derive(Debug)]
pub(super) enum AllocatorRequest {
    /// Assigns all requested addresses of one sandbox, or none of them.
    Assign {
        /// Each request asks for one address.
        requests: Vec<AddressRequest>,
        /// Object that the error names if the assignment fails, for example `network default/a`.
        what: String,
        deadline: Instant,
        /// Receives the addresses in the order of the requests.
        reply: oneshot::Sender<Result<Vec<IpWithGateway>, Fault>>,
    },
    Release {
        release: AddressRelease,
        /// Signalled after the API server has accepted the release.
        reply: oneshot::Sender<()>,
    },
}

/// Sends requests to the batch writer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AllocatorHandle {
    requests: mpsc::Sender<AllocatorRequest>,
    pub(super) assign_timeout: Duration,
}

/// Creates a handle and its batch writer, which the caller must run.
pub fn create_allocator<S: BlockStore>(
    node: String,
    blocks: Arc<AddressBlockCache>,
    store: S,
) -> (AllocatorHandle, BatchWriter<S>) {
    let (requests, receiver) = mpsc::channel(QUEUE_LENGTH);
    (
        AllocatorHandle { requests, assign_timeout: ASSIGN_TIMEOUT },
        BatchWriter::new(node, blocks, store, receiver),
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
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, response) = oneshot::channel();
        let request = AllocatorRequest::Assign {
            requests,
            what: what.clone(),
            deadline: Instant::now() + self.assign_timeout,
            reply,
        };
        let exchange = async {
            self.requests.send(request).await.ok()?;
            response.await.ok()
        };
        timeout(self.assign_timeout, exchange)
            .await
            .ok()
            .flatten()
            .unwrap_or_else(|| Err(timeout_fault(&what)))
    }

    /// Frees the addresses that `release` selects. Returns `false` if the API server did not accept the write
    /// within `limit`. The caller must then retry the release later.
    pub async fn release(&self, release: AddressRelease, limit: Duration) -> bool {
        let (reply, response) = oneshot::channel();
        let exchange = async {
            self.requests.send(AllocatorRequest::Release { release, reply }).await.ok()?;
            response.await.ok()
        };
        timeout(limit, exchange).await.ok().flatten().is_some()
    }
}

pub(super) fn timeout_fault(what: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("addresses of {what}"),
        "the API server did not accept the assignment in time",
        "no action needed, the pod is retried automatically; check that the API server is up",
    )
}
