//! Writes queued allocations and releases to the API server in batches.

use super::{
    AddressBlockCache, BlockStore, BlockStoreError,
    allocator::AllocatorRequest,
    batch::{AllocationQueue, BlockWriteOutcome, plan_batch},
};
use crate::error::error_chain;
use ferroband_address::{AddressPlanner, BlockWrite, IpBlockId};
use ferroband_daemon::Retry;
use futures::future::join_all;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
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
use tracing::{debug, warn};

/// Initial and maximum pause between attempts while the API server is unavailable. Each failure doubles the
/// pause.
const OUTAGE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Number of batches in a row that may fail with a conflict before the writer pauses between attempts.
const MAX_EAGER_RETRIES: u32 = 8;

/// Pause after a batch of several requests: this multiple of the time that the batch took, up to this
/// maximum. Requests that arrive during the pause share one write, and the API server has time for other
/// clients.
const BATCHING_PAUSE: (u32, Duration) = (3, Duration::from_millis(20));

/// Receives the requests of all allocator handles, plans them in batches and writes the changed blocks.
pub struct BatchWriter<S> {
    node: String,
    node_count: Arc<AtomicUsize>,
    blocks: Arc<AddressBlockCache>,
    store: S,
    requests: mpsc::Receiver<AllocatorRequest>,
    /// Blocks that must be read before the next batch is planned: those whose last write may or may not have
    /// succeeded, and those that must be written but of which the cache has only a summary. Without the read,
    /// a release could miss an address that was assigned by a write whose response was lost.
    uncertain_blocks: Mutex<BTreeSet<IpBlockId>>,
}

impl<S: BlockStore> BatchWriter<S> {
    pub(super) fn new(
        node: String,
        blocks: Arc<AddressBlockCache>,
        store: S,
        requests: mpsc::Receiver<AllocatorRequest>,
    ) -> Self {
        // Until the nodes are counted, assume a huge cluster, in which a node never claims a whole block for
        // itself.
        let node_count = Arc::new(AtomicUsize::new(usize::MAX));
        Self { node, node_count, blocks, store, requests, uncertain_blocks: Mutex::default() }
    }

    /// Returns the number of nodes in the cluster, which the caller must keep current. A node claims whole
    /// blocks for itself only while the pool has several free blocks per node.
    pub fn node_count(&self) -> Arc<AtomicUsize> {
        self.node_count.clone()
    }

    /// Runs until every allocator handle is dropped.
    pub async fn run(mut self) {
        let mut queue = AllocationQueue::default();
        let mut attempt = 0;
        let mut retry = Retry::new(OUTAGE_BACKOFF.0, OUTAGE_BACKOFF.1);
        let mut not_before = Instant::now();
        // Until all AddressBlocks have been listed once, it is unknown which addresses a sandbox already has.
        self.blocks.wait_synced().await;
        loop {
            if queue.is_empty() {
                attempt = 0;
                match self.requests.recv().await {
                    Some(request) => queue.push(request),
                    None => return,
                }
            }
            sleep_until(not_before).await;
            while let Ok(request) = self.requests.try_recv() {
                queue.push(request);
            }
            queue.expire();
            // A single request is written at once, without a pause for batching.
            let burst = queue.len() > 1;
            let begin = Instant::now();
            let available = self.write_batch(&mut queue, attempt).await;
            let batching_pause = if burst {
                (begin.elapsed() * BATCHING_PAUSE.0).min(BATCHING_PAUSE.1)
            } else {
                Duration::ZERO
            };
            not_before = Instant::now() + batching_pause;
            if available {
                retry.succeeded();
                attempt += 1;
                // Repeated conflicts mean that other nodes write the same blocks at the same rate, or that the
                // cache is wrong.
                if attempt > MAX_EAGER_RETRIES {
                    sleep(OUTAGE_BACKOFF.0).await;
                }
            } else {
                // Requests that arrive during the pause join the next batch.
                retry.pause().await;
            }
        }
    }

    /// Writes one batch with all requests in the queue. Requests that must be planned again stay in the
    /// queue. Returns `false` if the API server is unavailable.
    async fn write_batch(&self, queue: &mut AllocationQueue, attempt: u32) -> bool {
        if !self.reread_uncertain_blocks().await {
            return false;
        }
        let releases: Vec<_> = queue.releases.iter().map(|(release, _)| release.clone()).collect();
        let requests: Vec<_> =
            queue.assignments.iter().flat_map(|assignment| assignment.requests.clone()).collect();
        let node_count = self.node_count.load(Ordering::Relaxed);
        let planner = AddressPlanner { node: &self.node, node_count, attempt };
        let mut batch = self.blocks.with_view(|view| plan_batch(view, &planner, &releases, &requests));
        // The last free addresses of a pool are in blocks of other nodes. The cache only has summaries of these
        // blocks, so they must be read before they are written.
        for _ in 0..MAX_EAGER_RETRIES {
            if batch.unread.is_empty() {
                break;
            }
            self.uncertain_blocks.lock().extend(batch.unread);
            if !self.reread_uncertain_blocks().await {
                return false;
            }
            batch = self.blocks.with_view(|view| plan_batch(view, &planner, &releases, &requests));
        }
        if !batch.unread.is_empty() {
            // Some blocks are still unread, because other nodes keep changing them. The requests stay in the
            // queue for the next batch.
            return true;
        }
        let outcomes = join_all(batch.writes.iter().map(|write| self.write(write))).await;
        debug!(
            releases = releases.len(),
            requests = requests.len(),
            writes = batch.writes.len(),
            attempt,
            "wrote a batch of address blocks"
        );
        queue.complete(batch, &outcomes);
        // A rejected write must not delay the others. If nothing else is written, pause before the next attempt.
        let has = |wanted: fn(&BlockWriteOutcome) -> bool| outcomes.iter().any(wanted);
        let unknown = has(|outcome| matches!(outcome, BlockWriteOutcome::Unknown));
        let rejected = has(|outcome| matches!(outcome, BlockWriteOutcome::Rejected(_)));
        let written = has(|outcome| matches!(outcome, BlockWriteOutcome::Written));
        !unknown && (!rejected || written)
    }

    async fn write(&self, write: &BlockWrite) -> BlockWriteOutcome {
        let block = write.block();
        let written = match write {
            BlockWrite::Create(block) => self.store.create(block).await,
            BlockWrite::Replace { block, expected } => self.store.replace(block, expected).await,
        };
        match written {
            Ok(version) => {
                self.blocks.record_write(block.clone(), version);
                BlockWriteOutcome::Written
            }
            Err(BlockStoreError::Conflict) => match self.read(&block.id()).await {
                Ok(()) => BlockWriteOutcome::Conflict,
                Err(outcome) => outcome,
            },
            Err(e) => self.handle_error(&block.id(), e),
        }
    }

    /// Reads a block into the cache. A block that exists but cannot be read is left out of further plans. Only the
    /// requests that need this very block fail then.
    async fn read(&self, id: &IpBlockId) -> Result<(), BlockWriteOutcome> {
        match self.store.get(id).await {
            Ok(found) => {
                self.blocks.record_read(id, found);
                Ok(())
            }
            Err(e @ BlockStoreError::Rejected(_)) => {
                let newly_known = self.blocks.mark_unreadable(id.object_name());
                let rejected = self.handle_error(id, e);
                if newly_known { Ok(()) } else { Err(rejected) }
            }
            Err(e) => Err(self.handle_error(id, e)),
        }
    }

    fn handle_error(&self, id: &IpBlockId, error: BlockStoreError) -> BlockWriteOutcome {
        let block = id.object_name();
        match error {
            BlockStoreError::Rejected(e) => {
                warn!(block, error = %error_chain(&e), "API server rejected the address block");
                return BlockWriteOutcome::Rejected(e.fault());
            }
            BlockStoreError::Unavailable(e) => {
                warn!(block, error = %error_chain(&e), "API server unavailable, retrying");
            }
            BlockStoreError::Conflict => {}
        }
        self.uncertain_blocks.lock().insert(id.clone());
        BlockWriteOutcome::Unknown
    }

    /// Reads all `uncertain_blocks` into the cache. Stops and returns `false` if the API server is unavailable.
    async fn reread_uncertain_blocks(&self) -> bool {
        let ids: Vec<_> = self.uncertain_blocks.lock().iter().cloned().collect();
        for id in ids {
            match self.read(&id).await {
                Ok(()) | Err(BlockWriteOutcome::Rejected(_)) => {
                    self.uncertain_blocks.lock().remove(&id);
                }
                Err(_) => return false,
            }
        }
        true
    }
}
