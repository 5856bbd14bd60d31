//! The simulated API server as one node sees it: every call takes time and is counted.

use super::latency::SeededRandom;
use ferroband_address::{BlockCall, CallOutcome, InMemoryBlocks};
use ferroband_node::address::BlockStore;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::sleep;

/// The simulated API server, shared by all nodes.
#[derive(Debug)]
pub struct SimulatedApi {
    pub blocks: Mutex<InMemoryBlocks>,
    random: Mutex<SeededRandom>,
}

impl SimulatedApi {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { blocks: Mutex::default(), random: Mutex::new(SeededRandom::new(seed)) })
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

    fn count(&mut self, call: &BlockCall, outcome: &CallOutcome) {
        match call {
            BlockCall::Write(write) => {
                *self.writes.entry(write.id().space.as_str().to_owned()).or_default() += 1;
            }
            BlockCall::WriteSticky(..) => *self.writes.entry("pointers".to_owned()).or_default() += 1,
            BlockCall::Read(_) | BlockCall::ReadSticky(_) => self.reads += 1,
            BlockCall::ListOwn | BlockCall::ListSpace(_) | BlockCall::ReadIndex(_) => self.lists += 1,
        }
        self.conflicts += usize::from(*outcome == CallOutcome::Conflict);
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

    /// Returns the counts and starts again at zero.
    pub fn take_counts(&self) -> NodeRequestCounts {
        std::mem::take(&mut self.counts.lock())
    }
}

impl BlockStore for SimulatedStore {
    /// Executes the call somewhere between its start and its end.
    async fn execute(&self, node: &str, call: &BlockCall) -> CallOutcome {
        let (there, back) = {
            let mut random = self.api.random.lock();
            let whole = random.request_duration();
            let share = random.next_share();
            (whole.mul_f64(share), whole.mul_f64(1.0 - share))
        };
        sleep(there).await;
        let outcome = self.api.blocks.lock().execute(node, call);
        sleep(back).await;
        self.counts.lock().count(call, &outcome);
        outcome
    }
}
