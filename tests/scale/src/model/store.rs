//! The simulated API server as one node sees it: every request takes time and is counted.

use super::latency::SeededRandom;
use super::objects::{SimulatedObjects, WriteConflict};
use ferroband_address::{IpBlock, IpBlockId, ResourceVersion};
use ferroband_node::address::{BlockStore, BlockStoreError};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::sleep;

/// The simulated API server, shared by all nodes.
#[derive(Debug)]
pub struct SimulatedApi {
    objects: Mutex<SimulatedObjects>,
    random: Mutex<SeededRandom>,
}

impl SimulatedApi {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { objects: Mutex::default(), random: Mutex::new(SeededRandom::new(seed)) })
    }

    /// Calls `read` with all objects, outside the simulated time.
    pub fn inspect<T>(&self, read: impl FnOnce(&SimulatedObjects) -> T) -> T {
        read(&self.objects.lock())
    }
}

/// Requests of one node so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequestCounts {
    pub reads: usize,
    pub lists: usize,
    pub conflicts: usize,
    /// Writes by IP space. A pod needs one address per space, so these are the rounds that the space needed.
    pub writes: BTreeMap<String, usize>,
}

impl NodeRequestCounts {
    pub fn total(&self) -> usize {
        self.reads + self.lists + self.writes.values().sum::<usize>()
    }

    pub fn rounds(&self) -> usize {
        self.writes.values().copied().max().unwrap_or_default()
    }
}

/// The store of one node.
#[derive(Clone, Debug)]
pub struct SimulatedStore {
    api: Arc<SimulatedApi>,
    counts: Arc<Mutex<NodeRequestCounts>>,
}

impl SimulatedStore {
    pub fn new(api: Arc<SimulatedApi>) -> Self {
        Self { api, counts: Arc::default() }
    }

    pub fn counts(&self) -> NodeRequestCounts {
        self.counts.lock().clone()
    }

    /// One request. The API server handles it somewhere between its start and its end.
    async fn request<T>(&self, handle: impl FnOnce(&mut SimulatedObjects) -> T) -> T {
        let (there, back) = {
            let mut random = self.api.random.lock();
            let whole = random.request_duration();
            let share = random.next_share();
            (whole.mul_f64(share), whole.mul_f64(1.0 - share))
        };
        sleep(there).await;
        let answer = handle(&mut self.api.objects.lock());
        sleep(back).await;
        answer
    }

    async fn write<T>(
        &self,
        space: &str,
        handle: impl FnOnce(&mut SimulatedObjects) -> Result<T, WriteConflict>,
    ) -> Result<T, BlockStoreError> {
        *self.counts.lock().writes.entry(space.to_owned()).or_default() += 1;
        self.request(handle).await.map_err(|WriteConflict| {
            self.counts.lock().conflicts += 1;
            BlockStoreError::Conflict
        })
    }
}

impl BlockStore for SimulatedStore {
    async fn create(&self, block: &IpBlock) -> Result<ResourceVersion, BlockStoreError> {
        self.write(block.space.as_str(), |objects| objects.create(block)).await
    }

    async fn replace(
        &self,
        block: &IpBlock,
        expected: &ResourceVersion,
    ) -> Result<ResourceVersion, BlockStoreError> {
        self.write(block.space.as_str(), |objects| objects.replace(block, expected)).await
    }

    async fn get(&self, id: &IpBlockId) -> Result<Option<(IpBlock, ResourceVersion)>, BlockStoreError> {
        self.counts.lock().reads += 1;
        Ok(self.request(|objects| objects.get(id)).await)
    }
}
