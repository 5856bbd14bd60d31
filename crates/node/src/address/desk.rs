//! Where addresses are ordered and handed back.

use super::{Committer, Ledger, Store};
use ferroband_address::{Release, Request};
use ferroband_model::{Fault, FaultCode};
use ipnet::IpNet;
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// How long an ADD waits for its addresses before it says "try again later".
const PATIENCE: Duration = Duration::from_secs(15);
/// Orders that may wait; more are held back at the desk.
const QUEUE: usize = 1024;

/// An assigned address and its gateway.
pub type Place = (IpNet, Option<IpAddr>);

/// What the committer is asked.
#[derive(Debug)]
pub(super) enum Order {
    /// Addresses for one sandbox, all or none.
    Assign {
        /// One for each address wanted.
        requests: Vec<Request>,
        /// What they are for, in faults: `network default/a`.
        what: String,
        /// When the waiting ends.
        until: Instant,
        /// Where the addresses go, in the order of the requests.
        answer: oneshot::Sender<Result<Vec<Place>, Fault>>,
    },
    /// Addresses back.
    Release {
        /// Whose.
        release: Release,
        /// Told when it is done; not before.
        answer: oneshot::Sender<()>,
    },
}

/// The counter in front of the committer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk {
    orders: mpsc::Sender<Order>,
    patience: Duration,
}

/// A desk and the committer behind it, which somebody has to run.
pub fn open<S: Store>(node: String, ledger: Arc<Ledger>, store: S) -> (Desk, Committer<S>) {
    let (orders, queue) = mpsc::channel(QUEUE);
    (Desk { orders, patience: PATIENCE }, Committer::new(node, ledger, store, queue))
}

impl Desk {
    /// The same desk with another patience.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Assign an address for each request, all of one sandbox. `what` is what they are for, in faults.
    pub async fn assign(&self, what: String, requests: Vec<Request>) -> Result<Vec<Place>, Fault> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        let late = away(&what);
        let order = Order::Assign { requests, what, until: Instant::now() + self.patience, answer };
        let waiting = async {
            self.orders.send(order).await.ok()?;
            answered.await.ok()
        };
        timeout(self.patience, waiting).await.ok().flatten().unwrap_or(Err(late))
    }

    /// Free what `release` holds. `false` if that was not done in `patience`: then somebody has to come again.
    pub async fn release(&self, release: Release, patience: Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        let waiting = async {
            self.orders.send(Order::Release { release, answer }).await.ok()?;
            answered.await.ok()
        };
        timeout(patience, waiting).await.ok().flatten().is_some()
    }
}

/// The fault of an order that ran out of time.
pub(super) fn away(what: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        format!("addresses of {what}"),
        "the API server did not take the assignment in time",
        "the pod is tried again by itself; check that the API server is up",
    )
}
