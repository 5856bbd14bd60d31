//! The leader of a large cluster: `ferroband cluster` against an API server that holds the cluster's objects in memory.
//!
//! ```text
//! ClusterSize ──▶ cluster_objects ──▶ LoadApiServer ◀── lists, watches, writes ── LeaderProcess ──▶ simulated UFM
//!                                          ▲                                           └ memory, CPU time from /proc
//!                          heartbeats, a change on every node
//! ```
//!
//! The leader is the released program, so its memory and CPU time are those of a release.

mod api_server;
mod cluster_objects;
mod json_patch;
mod leader_process;
mod object_query;
mod object_store;
mod stored_object;

pub use cluster_objects::ClusterSize;

use anyhow::{Context, Result};
use api_server::LoadApiServer;
use cluster_objects::{
    NODE_PARTITIONS, NODES, create_objects, create_ufm_secret, node_name, node_object, partitions_spec,
};
use ferroband_testbed::ufm::{UfmSimulator, UfmSimulatorOptions};
use leader_process::LeaderProcess;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use stored_object::{PatchMode, StoredObject};
use tokio::time::{interval, sleep};

/// How often each kubelet writes its Node.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// The cluster is quiet when the leader has written nothing for this time.
const QUIET_TIME: Duration = Duration::from_secs(15);
/// How long the leader may take until it is quiet after its start, and until it has told all nodes.
const QUIET_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the requests of a leader that is not quiet are shown.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
const TOLD_TIMEOUT: Duration = Duration::from_secs(120);

/// Figures of the leader.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeaderReport {
    pub nodes: usize,
    pub guids: usize,
    pub addresses: usize,
    /// Time and writes from the start of the leader until it writes nothing more.
    pub start_seconds: f64,
    pub start_writes: u64,
    /// Time from a change on every node until every node has its status.
    pub told_seconds: f64,
    /// Nodes that had no status in time.
    pub not_told: usize,
    pub resident_mb: f64,
    pub peak_mb: f64,
    /// CPU time while only heartbeats arrive, in percent of a core.
    pub idle_cpu_percent: f64,
    pub idle_requests_per_second: f64,
    /// Requests while only heartbeats arrive, by `<method> <resource>`.
    pub idle_requests: BTreeMap<String, u64>,
    pub heartbeats_per_second: f64,
}

/// Serves an empty API server and writes its kubeconfig. Never returns.
pub async fn serve_api(kubeconfig: &Path) -> Result<()> {
    let api = LoadApiServer::default();
    let config = leader_process::kubeconfig(api.listen().await?);
    std::fs::write(kubeconfig, config).context("cannot write the kubeconfig")?;
    std::future::pending().await
}

/// Starts the leader and measures it. `idle` is how long it idles for the measurement of CPU time.
pub async fn measure_leader(program: &Path, size: ClusterSize, idle: Duration) -> Result<LeaderReport> {
    let api = LoadApiServer::default();
    create_objects(&mut api.store.lock(), size).context("cannot create the objects")?;
    let ufm = UfmSimulator::start(UfmSimulatorOptions::default())?;
    create_ufm_secret(&mut api.store.lock(), ufm.client_env())?;
    let folder = tempfile::tempdir().context("cannot create a folder for the leader")?;
    let address = api.listen().await?;
    let begin = Instant::now();
    let mut leader = LeaderProcess::start(program, address, folder.path())?;
    wait_quiet(&api, &mut leader).await?;
    let mut report = LeaderReport {
        nodes: size.nodes,
        guids: size.nodes * size.functions,
        addresses: size.blocks * 16,
        start_seconds: begin.elapsed().saturating_sub(QUIET_TIME).as_secs_f64(),
        start_writes: api.writes(),
        ..LeaderReport::default()
    };
    eprintln!("the leader is quiet after {:.0} s and {} writes", report.start_seconds, report.start_writes);

    let begin = Instant::now();
    let mut waiting = change_every_node(&api, size)?;
    while !waiting.is_empty() && begin.elapsed() < TOLD_TIMEOUT {
        sleep(Duration::from_millis(100)).await;
        leader.check_running()?;
        let store = api.store.lock();
        waiting.retain(|node, seen| match store.get(NODE_PARTITIONS, node) {
            Some(object) if object.version() != *seen => {
                *seen = object.version();
                !is_told(object)
            }
            _ => true,
        });
    }
    report.told_seconds = begin.elapsed().as_secs_f64();
    report.not_told = waiting.len();
    if let Some(node) = waiting.keys().next() {
        let store = api.store.lock();
        let status = store.get(NODE_PARTITIONS, node).map(parse_status).unwrap_or_default();
        eprintln!("NodePartitions {node} waits: {}", status["waiting"]);
        eprintln!(
            "{} nodes have no status; the leader's log ends with:\n{}",
            waiting.len(),
            leader.log_tail()
        );
    }
    wait_quiet(&api, &mut leader).await?;
    measure_idle(&api, &leader, size, idle, &mut report).await?;
    leader.check_running()?;
    Ok(report)
}

/// Adds a member on every node, as an ADD does. Returns the version of each object.
fn change_every_node(api: &LoadApiServer, size: ClusterSize) -> Result<BTreeMap<String, u64>> {
    let mut store = api.store.lock();
    let mut versions = BTreeMap::new();
    for node in 0..size.nodes {
        let name = node_name(node);
        let spec = partitions_spec(node, size.functions, size.functions);
        let patch = StoredObject::from_value(&json!({"metadata": {"name": name}, "spec": spec}))?;
        let mut object = store.get(NODE_PARTITIONS, &name).cloned().context("a NodePartitions is missing")?;
        object.patch(patch, PatchMode::Apply, false)?;
        let version = store.put(NODE_PARTITIONS, &name, object).version();
        versions.insert(name, version);
    }
    Ok(versions)
}

fn parse_status(object: &StoredObject) -> Value {
    let status = object.fields.get("status").and_then(|status| serde_json::from_str(status.get()).ok());
    status.unwrap_or_default()
}

/// Whether the status shows the current generation and no pending member.
fn is_told(object: &StoredObject) -> bool {
    let status =
        object.fields.get("status").and_then(|status| serde_json::from_str::<Value>(status.get()).ok());
    let status = status.unwrap_or_default();
    let generation = object.metadata.get("generation").and_then(Value::as_i64);
    status["observedGeneration"].as_i64() >= generation && status["pending"].as_i64() == Some(0)
}

/// Waits until the leader writes nothing.
async fn wait_quiet(api: &LoadApiServer, leader: &mut LeaderProcess) -> Result<()> {
    let (begin, mut last) = (Instant::now(), (api.writes(), Instant::now()));
    let (mut shown, mut requests) = (Instant::now(), api.requests());
    while last.1.elapsed() < QUIET_TIME {
        sleep(Duration::from_millis(500)).await;
        leader.check_running()?;
        if api.writes() != last.0 {
            last = (api.writes(), Instant::now());
        }
        if shown.elapsed() > PROGRESS_INTERVAL {
            eprintln!(
                "waiting until the leader writes nothing; its requests: {:?}",
                requests_since(api, &requests)
            );
            eprintln!("{}", leader.log_tail());
            (shown, requests) = (Instant::now(), api.requests());
        }
        if begin.elapsed() > QUIET_TIMEOUT {
            eprintln!("the leader still writes after {} s", QUIET_TIMEOUT.as_secs());
            break;
        }
    }
    Ok(())
}

/// Returns the requests after those in `before`, by `<method> <resource>`.
fn requests_since(api: &LoadApiServer, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |(what, count): (String, u64)| {
        let count = count - before.get(&what).copied().unwrap_or_default();
        (count > 0).then_some((what, count))
    };
    api.requests().into_iter().filter_map(since).collect()
}

/// Measures CPU time and memory while every node writes its heartbeats.
async fn measure_idle(
    api: &LoadApiServer,
    leader: &LeaderProcess,
    size: ClusterSize,
    idle: Duration,
    report: &mut LeaderReport,
) -> Result<()> {
    let (begin, requests, before) = (Instant::now(), api.requests(), leader.usage()?);
    let mut turns = interval(Duration::from_millis(20));
    let mut sent = 0;
    while begin.elapsed() < idle {
        turns.tick().await;
        let due = begin.elapsed().as_secs_f64() / HEARTBEAT_INTERVAL.as_secs_f64() * size.nodes as f64;
        while sent < due as usize {
            let object = node_object(sent % size.nodes, 1 + (sent / size.nodes) as u64)?;
            api.store.lock().put(NODES, &node_name(sent % size.nodes), object);
            sent += 1;
        }
    }
    let (seconds, after) = (begin.elapsed().as_secs_f64(), leader.usage()?);
    report.idle_cpu_percent = (after.cpu_seconds - before.cpu_seconds) / seconds * 100.0;
    report.idle_requests = requests_since(api, &requests);
    report.idle_requests_per_second = report.idle_requests.values().sum::<u64>() as f64 / seconds;
    report.heartbeats_per_second = sent as f64 / seconds;
    report.resident_mb = after.resident;
    report.peak_mb = after.peak;
    Ok(())
}
