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
    /// Operations that failed and were repeated, as by a kubelet.
    pub failures: usize,
    /// Operations that failed to the end.
    pub unserved: usize,
    pub last_failure: Option<String>,
    pub counts: RequestCounts,
    /// Requests of the member that sent most.
    pub most_requests: u64,
    pub seconds: f64,
    pub p50_millis: f64,
    pub p99_millis: f64,
}

/// How long a failed ADD is repeated, and the pause before each repetition.
const GIVE_UP: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The result of one operation, how long it took with its repetitions, and how often it failed before.
pub struct TimedResult {
    pub result: Result<IpAddr>,
    time: Duration,
    failures: usize,
}

/// Assigns an address, and repeats that after a failure.
async fn assign(member: &Member, pod: &ScalePod) -> TimedResult {
    let (begin, mut failures) = (Instant::now(), 0);
    loop {
        let result = member.assign(pod).await;
        if result.is_ok() || begin.elapsed() > GIVE_UP {
            return TimedResult { result, time: begin.elapsed(), failures };
        }
        failures += 1;
        sleep(RETRY_PAUSE).await;
    }
}

/// Assigns an address to each pod in turn; all members work at the same time. `pods` has one list per member.
pub async fn assign_all(members: &[Member], pods: &[Vec<ScalePod>]) -> (PhaseReport, Vec<Vec<TimedResult>>) {
    let begin = Instant::now();
    let work = members.iter().zip(pods).map(|(member, pods)| async move {
        let mut results = Vec::with_capacity(pods.len());
        for pod in pods {
            results.push(assign(member, pod).await);
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
            results.push(TimedResult { result, time: begin.elapsed(), failures: 0 });
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
    for TimedResult { result, time, failures } in results {
        report.failures += failures;
        match result {
            Ok(_) => {
                report.addresses += 1;
                times.push(*time);
            }
            Err(e) => {
                report.unserved += 1;
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
