//! The task that writes.

use super::{
    Ledger, Store, StoreError,
    desk::Order,
    round::plan,
    waiting::{Outcome, Waiting},
};
use crate::error::chain;
use ferroband_address::{GranuleId, Planner, Write};
use futures::future::join_all;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, warn};

/// The first pause while the API server is away, doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// So many lost rounds follow each other without a pause.
const EAGER: u32 = 8;

/// In a burst the pause after a round is so many times what the round took, and never longer than this: what joins
/// meanwhile shares one write, and the API server has the rest of the time for others.
const GATHER: (u32, Duration) = (3, Duration::from_millis(20));

/// Takes orders and commits them in rounds.
pub struct Committer<S> {
    node: String,
    nodes: Arc<AtomicUsize>,
    ledger: Arc<Ledger>,
    store: S,
    queue: mpsc::Receiver<Order>,
    /// Granules whose last write may or may not have happened, and those that are to be written but not known whole. They
    /// are read before anything else is planned, or a release could miss an address that it does not know to be assigned.
    doubtful: Mutex<BTreeSet<GranuleId>>,
}

impl<S: Store> Committer<S> {
    pub(super) fn new(node: String, ledger: Arc<Ledger>, store: S, queue: mpsc::Receiver<Order>) -> Self {
        // Until it is counted, as many as nobody has: nothing is taken ahead of need.
        let nodes = Arc::new(AtomicUsize::new(usize::MAX));
        Self { node, nodes, ledger, store, queue, doubtful: Mutex::default() }
    }

    /// Where the number of the cluster's nodes is kept; how much is taken ahead of need follows from it.
    pub fn nodes(&self) -> Arc<AtomicUsize> {
        self.nodes.clone()
    }

    /// Commits until every desk is closed.
    pub async fn run(mut self) {
        let mut waiting = Waiting::default();
        let mut attempt = 0;
        let mut pause = PAUSES.0;
        let mut not_before = Instant::now();
        // Before the first list, what a sandbox holds could not be found.
        self.ledger.complete().await;
        loop {
            if waiting.is_empty() {
                attempt = 0;
                match self.queue.recv().await {
                    Some(order) => waiting.take(order),
                    None => return,
                }
            }
            sleep_until(not_before).await;
            while let Ok(order) = self.queue.try_recv() {
                waiting.take(order);
            }
            waiting.drop_late();
            // Who comes alone never waits.
            let burst = waiting.len() > 1;
            let begin = Instant::now();
            let answered = self.round(&mut waiting, attempt).await;
            let gather = if burst { (begin.elapsed() * GATHER.0).min(GATHER.1) } else { Duration::ZERO };
            not_before = Instant::now() + gather;
            if answered {
                pause = PAUSES.0;
                attempt += 1;
                // Losing again and again: others are as eager, or the granules are not what they seem.
                if attempt > EAGER {
                    sleep(PAUSES.0).await;
                }
            } else {
                // More orders join the next round meanwhile.
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }

    /// One round over everything that waits; what is left must be planned again. `false` if the API server is away.
    async fn round(&self, waiting: &mut Waiting, attempt: u32) -> bool {
        if !self.resolve_doubts().await {
            return false;
        }
        let releases: Vec<_> = waiting.releases.iter().map(|(release, _)| release.clone()).collect();
        let requests: Vec<_> =
            waiting.assignments.iter().flat_map(|assignment| assignment.requests.clone()).collect();
        let nodes = self.nodes.load(Ordering::Relaxed);
        let planner = Planner { node: &self.node, nodes, attempt };
        let mut round = self.ledger.plan(|view| plan(view, &planner, &releases, &requests));
        // The last free addresses of a pool are in granules of other nodes, which are read before they are written.
        for _ in 0..EAGER {
            if round.unread.is_empty() {
                break;
            }
            self.doubtful().extend(round.unread);
            if !self.resolve_doubts().await {
                return false;
            }
            round = self.ledger.plan(|view| plan(view, &planner, &releases, &requests));
        }
        if !round.unread.is_empty() {
            // Others change them all the time.
            return true;
        }
        let outcomes = join_all(round.writes.iter().map(|write| self.write(write))).await;
        debug!(
            releases = releases.len(),
            requests = requests.len(),
            writes = round.writes.len(),
            attempt,
            "committed a round"
        );
        waiting.settle(round, &outcomes);
        !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown | Outcome::Refused(_)))
    }

    async fn write(&self, write: &Write) -> Outcome {
        let granule = write.granule();
        let written = match write {
            Write::Create(granule) => self.store.create(granule).await,
            Write::Replace { granule, expected } => self.store.replace(granule, expected).await,
        };
        match written {
            Ok(version) => {
                self.ledger.wrote(granule.clone(), version);
                Outcome::Written
            }
            Err(StoreError::Conflict) => match self.store.get(&granule.id()).await {
                Ok(found) => {
                    self.ledger.reread(&granule.id(), found);
                    Outcome::Lost
                }
                Err(e) => self.failed(&granule.id(), e),
            },
            Err(e) => self.failed(&granule.id(), e),
        }
    }

    fn failed(&self, id: &GranuleId, error: StoreError) -> Outcome {
        let granule = id.object_name();
        match error {
            StoreError::Refused(e) => {
                warn!(granule, error = %chain(&e), "the API server refuses");
                return Outcome::Refused(e.fault());
            }
            StoreError::Away(e) => {
                warn!(granule, error = %chain(&e), "the API server does not answer; trying again");
            }
            StoreError::Conflict => {}
        }
        self.doubtful().insert(id.clone());
        Outcome::Unknown
    }

    /// Read the granules that are in doubt; `false` if that is not possible now.
    async fn resolve_doubts(&self) -> bool {
        let ids: Vec<_> = self.doubtful().iter().cloned().collect();
        for id in ids {
            match self.store.get(&id).await {
                Ok(found) => {
                    self.ledger.reread(&id, found);
                    self.doubtful().remove(&id);
                }
                Err(e) => {
                    self.failed(&id, e);
                    return false;
                }
            }
        }
        true
    }

    fn doubtful(&self) -> MutexGuard<'_, BTreeSet<GranuleId>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
