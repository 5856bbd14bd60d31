//! Where addresses are ordered and handed back.

use super::{AddressBlockCache, BatchWriter, BlockStore};
use ferroband_address::{AddressRelease, AddressRequest};
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// How long an ADD waits for its addresses before it says "try again later".
const ASSIGN_TIMEOUT: Duration = Duration::from_secs(15);
/// Orders that may wait; more are held back at the desk.
const QUEUE_LENGTH: usize = 1024;

/// An assigned address and its gateway.
pub type IpWithGateway = (IpNet, Option<IpAddr>);

/// What the committer is asked.
#[derive(Debug)]
pub(super) enum AllocatorRequest {
    /// Addresses for one sandbox, all or none.
    Assign {
        /// One for each address wanted.
        requests: Vec<AddressRequest>,
        /// What they are for, in faults: `network default/a`.
        what: String,
        /// When the waiting ends.
        deadline: Instant,
        /// Where the addresses go, in the order of the requests.
        reply: oneshot::Sender<Result<Vec<IpWithGateway>, Fault>>,
    },
    /// Addresses back.
    Release {
        /// Whose.
        release: AddressRelease,
        /// Told when it is done; not before.
        reply: oneshot::Sender<()>,
    },
}

/// The counter in front of the committer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AllocatorHandle {
    requests: mpsc::Sender<AllocatorRequest>,
    assign_timeout: Duration,
}

/// A desk and the committer behind it, which somebody has to run.
pub fn create_allocator<S: BlockStore>(
    node: String,
    ledger: Arc<AddressBlockCache>,
    store: S,
) -> (AllocatorHandle, BatchWriter<S>) {
    let (orders, queue) = mpsc::channel(QUEUE_LENGTH);
    (
        AllocatorHandle { requests: orders, assign_timeout: ASSIGN_TIMEOUT },
        BatchWriter::new(node, ledger, store, queue),
    )
}

impl AllocatorHandle {
    /// The same desk with another patience.
    pub fn with_assign_timeout(self, patience: Duration) -> Self {
        Self { assign_timeout: patience, ..self }
    }

    /// Assign an address for each request, all of one sandbox. `what` is what they are for, in faults.
    pub async fn assign(
        &self,
        what: String,
        requests: Vec<AddressRequest>,
    ) -> Result<Vec<IpWithGateway>, Fault> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        let late = timeout_fault(&what);
        let order = AllocatorRequest::Assign {
            requests,
            what,
            deadline: Instant::now() + self.assign_timeout,
            reply: answer,
        };
        let waiting = async {
            self.requests.send(order).await.ok()?;
            answered.await.ok()
        };
        timeout(self.assign_timeout, waiting).await.ok().flatten().unwrap_or(Err(late))
    }

    /// Free what `release` holds. `false` if that was not done in `patience`: then somebody has to come again.
    pub async fn release(&self, release: AddressRelease, patience: Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        let waiting = async {
            self.requests.send(AllocatorRequest::Release { release, reply: answer }).await.ok()?;
            answered.await.ok()
        };
        timeout(patience, waiting).await.ok().flatten().is_some()
    }
}

/// The fault of an order that ran out of time.
pub(super) fn timeout_fault(what: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("addresses of {what}"),
        "the API server did not take the assignment in time",
        "the pod is tried again by itself; check that the API server is up",
    )
}
