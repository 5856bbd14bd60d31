//! The task that writes.

use super::{
    AddressBlockCache, BlockStore, BlockStoreError,
    allocator::AllocatorRequest,
    batch::plan_batch,
    queue::{AllocationQueue, BlockWriteOutcome},
};
use crate::error::error_chain;
use ferroband_address::{AddressPlanner, BlockWrite, IpBlockId};
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
const OUTAGE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// So many lost rounds follow each other without a pause.
const MAX_EAGER_RETRIES: u32 = 8;

/// In a burst the pause after a round is so many times what the round took, and never longer than this: what joins
/// meanwhile shares one write, and the API server has the rest of the time for others.
const BATCHING_PAUSE: (u32, Duration) = (3, Duration::from_millis(20));

/// Takes orders and commits them in rounds.
pub struct BatchWriter<S> {
    node: String,
    node_count: Arc<AtomicUsize>,
    blocks: Arc<AddressBlockCache>,
    store: S,
    requests: mpsc::Receiver<AllocatorRequest>,
    /// Granules whose last write may or may not have happened, and those that are to be written but not known whole. They
    /// are read before anything else is planned, or a release could miss an address that it does not know to be assigned.
    uncertain_blocks: Mutex<BTreeSet<IpBlockId>>,
}

impl<S: BlockStore> BatchWriter<S> {
    pub(super) fn new(
        node: String,
        ledger: Arc<AddressBlockCache>,
        store: S,
        queue: mpsc::Receiver<AllocatorRequest>,
    ) -> Self {
        // Until it is counted, as many as nobody has: nothing is taken ahead of need.
        let nodes = Arc::new(AtomicUsize::new(usize::MAX));
        Self {
            node,
            node_count: nodes,
            blocks: ledger,
            store,
            requests: queue,
            uncertain_blocks: Mutex::default(),
        }
    }

    /// Where the number of the cluster's nodes is kept; how much is taken ahead of need follows from it.
    pub fn node_count(&self) -> Arc<AtomicUsize> {
        self.node_count.clone()
    }

    /// Commits until every desk is closed.
    pub async fn run(mut self) {
        let mut waiting = AllocationQueue::default();
        let mut attempt = 0;
        let mut pause = OUTAGE_BACKOFF.0;
        let mut not_before = Instant::now();
        // Before the first list, what a sandbox holds could not be found.
        self.blocks.wait_synced().await;
        loop {
            if waiting.is_empty() {
                attempt = 0;
                match self.requests.recv().await {
                    Some(order) => waiting.push(order),
                    None => return,
                }
            }
            sleep_until(not_before).await;
            while let Ok(order) = self.requests.try_recv() {
                waiting.push(order);
            }
            waiting.expire();
            // Who comes alone never waits.
            let burst = waiting.len() > 1;
            let begin = Instant::now();
            let answered = self.write_batch(&mut waiting, attempt).await;
            let gather = if burst {
                (begin.elapsed() * BATCHING_PAUSE.0).min(BATCHING_PAUSE.1)
            } else {
                Duration::ZERO
            };
            not_before = Instant::now() + gather;
            if answered {
                pause = OUTAGE_BACKOFF.0;
                attempt += 1;
                // Losing again and again: others are as eager, or the granules are not what they seem.
                if attempt > MAX_EAGER_RETRIES {
                    sleep(OUTAGE_BACKOFF.0).await;
                }
            } else {
                // More orders join the next round meanwhile.
                sleep(pause).await;
                pause = (pause * 2).min(OUTAGE_BACKOFF.1);
            }
        }
    }

    /// One round over everything that waits; what is left must be planned again. `false` if the API server is away.
    async fn write_batch(&self, waiting: &mut AllocationQueue, attempt: u32) -> bool {
        if !self.reread_uncertain_blocks().await {
            return false;
        }
        let releases: Vec<_> = waiting.releases.iter().map(|(release, _)| release.clone()).collect();
        let requests: Vec<_> =
            waiting.assignments.iter().flat_map(|assignment| assignment.requests.clone()).collect();
        let nodes = self.node_count.load(Ordering::Relaxed);
        let planner = AddressPlanner { node: &self.node, node_count: nodes, attempt };
        let mut round = self.blocks.with_view(|view| plan_batch(view, &planner, &releases, &requests));
        // The last free addresses of a pool are in granules of other nodes, which are read before they are written.
        for _ in 0..MAX_EAGER_RETRIES {
            if round.unread.is_empty() {
                break;
            }
            self.uncertain_blocks().extend(round.unread);
            if !self.reread_uncertain_blocks().await {
                return false;
            }
            round = self.blocks.with_view(|view| plan_batch(view, &planner, &releases, &requests));
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
        waiting.complete(round, &outcomes);
        !outcomes
            .iter()
            .any(|outcome| matches!(outcome, BlockWriteOutcome::Unknown | BlockWriteOutcome::Rejected(_)))
    }

    async fn write(&self, write: &BlockWrite) -> BlockWriteOutcome {
        let granule = write.block();
        let written = match write {
            BlockWrite::Create(granule) => self.store.create(granule).await,
            BlockWrite::Replace { block: granule, expected } => self.store.replace(granule, expected).await,
        };
        match written {
            Ok(version) => {
                self.blocks.record_write(granule.clone(), version);
                BlockWriteOutcome::Written
            }
            Err(BlockStoreError::Conflict) => match self.store.get(&granule.id()).await {
                Ok(found) => {
                    self.blocks.record_read(&granule.id(), found);
                    BlockWriteOutcome::Conflict
                }
                Err(e) => self.handle_error(&granule.id(), e),
            },
            Err(e) => self.handle_error(&granule.id(), e),
        }
    }

    fn handle_error(&self, id: &IpBlockId, error: BlockStoreError) -> BlockWriteOutcome {
        let granule = id.object_name();
        match error {
            BlockStoreError::Rejected(e) => {
                warn!(granule, error = %error_chain(&e), "the API server refuses");
                return BlockWriteOutcome::Rejected(e.fault());
            }
            BlockStoreError::Unavailable(e) => {
                warn!(granule, error = %error_chain(&e), "the API server does not answer; trying again");
            }
            BlockStoreError::Conflict => {}
        }
        self.uncertain_blocks().insert(id.clone());
        BlockWriteOutcome::Unknown
    }

    /// Read the granules that are in doubt; `false` if that is not possible now.
    async fn reread_uncertain_blocks(&self) -> bool {
        let ids: Vec<_> = self.uncertain_blocks().iter().cloned().collect();
        for id in ids {
            match self.store.get(&id).await {
                Ok(found) => {
                    self.blocks.record_read(&id, found);
                    self.uncertain_blocks().remove(&id);
                }
                Err(e) => {
                    self.handle_error(&id, e);
                    return false;
                }
            }
        }
        true
    }

    fn uncertain_blocks(&self) -> MutexGuard<'_, BTreeSet<IpBlockId>> {
        self.uncertain_blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
