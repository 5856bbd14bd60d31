//! A discrete-event model of many nodes that start pods at once. The engine and the loop that writes blocks are the
//! node daemon's own; only the API server and the clock are simulated.
//!
//! ```text
//! ModelScenario ──▶ per node: AllocatorHandle ──▶ BatchWriter ──▶ SimulatedStore ──▶ InMemoryBlocks (conflicts)
//!                             leader: index of each space, once per second ──────────────▲
//! ```
//!
//! tokio's paused clock is the event queue: when no task can run, the clock advances to the next timer. One thread and
//! a seed make a run repeatable. The simulated API server has no capacity limit.

mod latency;
mod scenario;
mod store;
#[cfg(test)]
mod tests;

pub use scenario::{ModelResult, ModelScenario};

use crate::percentile_millis;
use anyhow::{Context, Result};
use ferroband_model::{Fault, FaultCode};
use ferroband_node::address::{AllocatorHandle, AssignmentGate, OwnBlocks, create_allocator};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{NodeRequestCounts, SimulatedApi, SimulatedStore};
use tokio::time::{Instant, sleep};

/// Pause before a failed ADD is repeated, as by a kubelet.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long a pod is retried. The contract: a repeated request succeeds within 30 s while an address is free.
const GIVE_UP: Duration = Duration::from_secs(30);

/// How often the leader writes the index of each space.
const INDEX_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a scenario on a simulated clock.
pub fn run_scenario(scenario: &ModelScenario) -> Result<ModelResult> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot start the simulated clock")?;
    let begin = std::time::Instant::now();
    let mut result = runtime.block_on(start_pods(scenario));
    result.seconds = begin.elapsed().as_secs_f64();
    Ok(result)
}

async fn start_pods(scenario: &ModelScenario) -> ModelResult {
    let api = SimulatedApi::new(scenario.seed);
    tokio::spawn(write_indexes(scenario.clone(), api.clone()));
    let mut nodes = Vec::with_capacity(scenario.nodes);
    for node in 0..scenario.nodes {
        let store = SimulatedStore::new(api.clone());
        let blocks = Arc::new(OwnBlocks::new(&format!("node-{node}")));
        let (allocator, writer) = create_allocator(blocks.clone(), AssignmentGate::open(), store.clone());
        writer.node_count().store(scenario.nodes, Ordering::Relaxed);
        tokio::spawn(writer.run());
        nodes.push((allocator, blocks, store));
    }
    for (_, blocks, store) in &nodes {
        blocks.wait_synced().await;
        // What a daemon requests when it starts is no cost of a pod.
        store.take_counts();
    }
    let begin = Instant::now();
    let start = |(node, (allocator, ..)): (usize, &(AllocatorHandle, _, _))| {
        tokio::spawn(start_pod(scenario.clone(), node, allocator.clone(), api.clone()))
    };
    let pods: Vec<_> = nodes.iter().enumerate().map(start).collect();
    let mut started = Vec::with_capacity(scenario.nodes);
    for pod in pods {
        started.extend(pod.await);
    }
    let simulated_seconds = begin.elapsed().as_secs_f64();
    let counts: Vec<_> = nodes.iter().map(|(_, _, store)| store.take_counts()).collect();
    ModelResult { simulated_seconds, ..summarize(scenario, &counts, &started) }
}

/// Writes the index of each space, as the leader does.
async fn write_indexes(scenario: ModelScenario, api: Arc<SimulatedApi>) {
    loop {
        sleep(INDEX_INTERVAL).await;
        for pool in &scenario.pools {
            api.blocks.lock().publish_index(pool.space());
        }
    }
}

/// How the start of one pod ended.
#[derive(Default)]
struct PodStart {
    addresses: Vec<(usize, IpAddr)>,
    duration: Option<Duration>,
    refused: usize,
    failed: usize,
    last_failure: Option<Fault>,
}

async fn start_pod(
    scenario: ModelScenario,
    node: usize,
    allocator: AllocatorHandle,
    api: Arc<SimulatedApi>,
) -> PodStart {
    let (begin, mut start, mut sandbox) = (Instant::now(), PodStart::default(), 0);
    while begin.elapsed() < GIVE_UP {
        let requests = scenario.requests(node, sandbox);
        match allocator.assign(format!("pod {node}"), requests).await {
            Ok(addresses) => {
                start.addresses = addresses.iter().map(|(net, _)| net.addr()).enumerate().collect();
                start.duration = Some(begin.elapsed());
                break;
            }
            Err(fault) => {
                let exhausted = fault.code == FaultCode::PoolExhausted;
                start.refused += usize::from(exhausted && has_free_address(&scenario, &api));
                start.failed += usize::from(!exhausted);
                start.last_failure = Some(fault);
            }
        }
        sandbox += 1;
        sleep(RETRY_PAUSE).await;
    }
    start
}

/// Whether every pool has a free address now.
fn has_free_address(scenario: &ModelScenario, api: &SimulatedApi) -> bool {
    let blocks = api.blocks.lock();
    scenario.pools.iter().all(|pool| {
        let of_pool = blocks.blocks().filter(|block| block.space == *pool.space());
        let used: usize = of_pool.map(|block| usize::from(block.used())).sum();
        (used as u128) < pool.capacity()
    })
}

fn summarize(scenario: &ModelScenario, counts: &[NodeRequestCounts], started: &[PodStart]) -> ModelResult {
    let requests = counts.iter().map(|counts| counts.total()).sum::<usize>();
    let assigned: Vec<_> = started.iter().flat_map(|start| start.addresses.iter().copied()).collect();
    let distinct: BTreeSet<_> = assigned.iter().collect();
    let times: Vec<_> = started.iter().filter_map(|start| start.duration).collect();
    let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
    for writes in counts.iter().flat_map(|counts| counts.writes.values()) {
        *rounds.entry(*writes).or_default() += 1;
    }
    let failure = started.iter().find_map(|start| start.last_failure.as_ref());
    ModelResult {
        scenario: scenario.name.to_owned(),
        nodes: scenario.nodes,
        addresses: assigned.len(),
        requests,
        reads: counts.iter().map(|counts| counts.reads).sum(),
        lists: counts.iter().map(|counts| counts.lists).sum(),
        conflicts: counts.iter().map(|counts| counts.conflicts).sum(),
        requests_per_address: requests as f64 / assigned.len().max(1) as f64,
        most_rounds: rounds.keys().copied().max().unwrap_or_default(),
        rounds,
        refused: started.iter().map(|start| start.refused).sum(),
        failed: started.iter().map(|start| start.failed).sum(),
        last_failure: failure.map(ToString::to_string),
        duplicates: assigned.len() - distinct.len(),
        without_address: started.iter().filter(|start| start.duration.is_none()).count(),
        p50_millis: percentile_millis(&times, 0.5),
        p99_millis: percentile_millis(&times, 0.99),
        ..ModelResult::default()
    }
}
