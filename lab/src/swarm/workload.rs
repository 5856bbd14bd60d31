//! Requests a number of addresses with a given parallelism.

use super::Swarm;
use super::report::{SwarmAddress, SwarmReport};
use anyhow::{Result, bail};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Attempts per interface.
const MAX_TRIES: usize = 200;
/// Pause before a failed ADD is retried.
const PAUSE: Duration = Duration::from_millis(200);

/// Addresses to request from a swarm, and how.
#[derive(Clone, Debug)]
pub struct SwarmWorkload {
    /// Number of addresses.
    pub addresses: usize,
    /// Number of parallel requests.
    pub at_once: usize,
    /// The `ipam` object, as JSON.
    pub ipam: String,
    /// Whether to kill daemons repeatedly.
    pub kill: bool,
    /// Whether to assign the addresses to the member's `lo`.
    pub assign_in_kernel: bool,
    /// Name prefix of sandboxes, unique per workload.
    pub name: String,
}

/// Runs the workload. Calls `half_way` once, when half of the addresses are assigned.
pub fn run_workload(
    swarm: &Swarm,
    workload: &SwarmWorkload,
    half_way: impl Fn() -> Result<()> + Sync,
) -> Result<SwarmReport> {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"swarm","type":"none","ipam":{}}}"#, workload.ipam);
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let half = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let report = Mutex::new(SwarmReport::default());
    let begin = Instant::now();
    let lock = || report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| -> Result<()> {
        let killing = workload.kill.then(|| {
            scope.spawn(|| -> Result<()> {
                // At fixed intervals, unrelated to the ADDs. A daemon that has served nothing since its start is mostly
                // skipped: on a busy machine no daemon would ever get to serve a request.
                let mut turn = 0;
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(700));
                    let member = &swarm.members[turn * 5 % swarm.members.len()];
                    if member.has_served() || turn % 8 == 7 {
                        member.restart_daemon()?;
                        lock().kills += 1;
                    }
                    turn += 1;
                }
                Ok(())
            })
        });
        let workers: Vec<_> = (0..workload.at_once)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= workload.addresses {
                            return Ok(());
                        }
                        add_with_retries(swarm, workload, &config, number, &report)?;
                        let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
                        if so_far * 2 >= workload.addresses && !half.swap(true, Ordering::Relaxed) {
                            half_way()?;
                        }
                    }
                })
            })
            .collect();
        let mut results = Vec::new();
        for worker in workers {
            results.push(worker.join().unwrap_or_else(|_| bail!("a worker panicked")));
        }
        over.store(true, Ordering::Relaxed);
        if let Some(killing) = killing {
            results.push(killing.join().unwrap_or_else(|_| bail!("the killing thread panicked")));
        }
        results.into_iter().collect()
    })?;
    let mut report = report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// ADD for one interface, retried as by a kubelet: each time in a new sandbox, after DEL of the old one.
fn add_with_retries(
    swarm: &Swarm,
    workload: &SwarmWorkload,
    config: &str,
    number: usize,
    report: &Mutex<SwarmReport>,
) -> Result<()> {
    let member = &swarm.members[number % swarm.members.len()];
    let interface = format!("{}{number}", workload.name);
    let lock = || report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for attempt in 0..MAX_TRIES {
        let container = format!("{interface}-{attempt}");
        let begin = Instant::now();
        let (ok, answer) = member.call_plugin("ADD", &container, &interface, config)?;
        let time = begin.elapsed();
        if let Some(address) = answer["ips"][0]["address"].as_str().filter(|_| ok) {
            member.mark_served();
            let (node, address) = (member.name.clone(), address.to_owned());
            if workload.assign_in_kernel {
                member.change_lo_address("add", &address)?;
            }
            let mut report = lock();
            report.times.push(time);
            report.assigned.push(SwarmAddress { node, interface, container, address });
            return Ok(());
        }
        {
            let mut report = lock();
            report.failures += 1;
            report.last_failure = Some(error_text(&answer));
        }
        let (ok, answer) = member.call_plugin("DEL", &container, &interface, config)?;
        if !ok {
            bail!("DEL of {container} failed: {answer}");
        }
        std::thread::sleep(PAUSE);
    }
    bail!("{interface}: no address after {MAX_TRIES} tries; the last: {:?}", lock().last_failure)
}

fn error_text(answer: &Value) -> String {
    format!(
        "{} {}",
        answer["msg"].as_str().unwrap_or_default(),
        answer["details"].as_str().unwrap_or_default()
    )
}
