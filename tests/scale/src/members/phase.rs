//! A phase of the benchmark: every member does the same at the same time.

use super::member::{Member, ScalePod};
use super::request_counter::RequestCounts;
use crate::percentile_millis;
use anyhow::Result;
use futures::future::join_all;
use serde::Serialize;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Members stay idle for this time before their requests are counted, so that deferred requests are counted, too.
const SETTLE: Duration = Duration::from_secs(3);

/// Figures of one phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseReport {
    /// Addresses that were assigned or released.
    pub addresses: usize,
    pub failures: usize,
    pub last_failure: Option<String>,
    pub counts: RequestCounts,
    /// Requests of the member that sent most.
    pub most_requests: u64,
    pub seconds: f64,
    pub p50_millis: f64,
    pub p99_millis: f64,
}

/// The result of one operation and how long it took.
pub type TimedResult = (Result<IpAddr>, Duration);

/// Assigns an address to each pod in turn; all members work at the same time. `pods` has one list per member.
pub async fn assign_all(members: &[Member], pods: &[Vec<ScalePod>]) -> (PhaseReport, Vec<Vec<TimedResult>>) {
    let begin = Instant::now();
    let work = members.iter().zip(pods).map(|(member, pods)| async move {
        let mut results = Vec::with_capacity(pods.len());
        for pod in pods {
            let begin = Instant::now();
            let result = member.assign(pod).await;
            results.push((result, begin.elapsed()));
        }
        results
    });
    let results = join_all(work).await;
    (finish(members, begin, results.iter().flatten()).await, results)
}

/// Releases the address of each pod in turn; all members work at the same time.
pub async fn release_all(members: &[Member], pods: &[Vec<ScalePod>]) -> PhaseReport {
    let begin = Instant::now();
    let work = members.iter().zip(pods).map(|(member, pods)| async move {
        let mut results: Vec<TimedResult> = Vec::with_capacity(pods.len());
        for pod in pods {
            let begin = Instant::now();
            let result = member.release(pod).await.map(|()| IpAddr::from([0, 0, 0, 0]));
            results.push((result, begin.elapsed()));
        }
        results
    });
    let results = join_all(work).await;
    finish(members, begin, results.iter().flatten()).await
}

/// Counts the requests of all members since their counters were read last.
pub async fn count_requests(members: &[Member]) -> PhaseReport {
    finish(members, Instant::now(), std::iter::empty()).await
}

async fn finish<'a>(
    members: &[Member],
    begin: Instant,
    results: impl Iterator<Item = &'a TimedResult>,
) -> PhaseReport {
    let mut report = PhaseReport { seconds: begin.elapsed().as_secs_f64(), ..PhaseReport::default() };
    let mut times = Vec::new();
    for (result, time) in results {
        match result {
            Ok(_) => {
                report.addresses += 1;
                times.push(*time);
            }
            Err(e) => {
                report.failures += 1;
                report.last_failure = Some(format!("{e:#}"));
            }
        }
    }
    report.p50_millis = percentile_millis(&times, 0.5);
    report.p99_millis = percentile_millis(&times, 0.99);
    sleep(SETTLE).await;
    for member in members {
        let counts = member.counter.take();
        report.most_requests = report.most_requests.max(counts.total());
        report.counts.add(&counts);
    }
    report
}
