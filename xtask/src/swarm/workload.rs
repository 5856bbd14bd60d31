//! So many addresses, so many at once.

use super::Swarm;
use super::report::{SwarmAddress, SwarmReport};
use anyhow::{Result, bail};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often one interface is tried.
const MAX_TRIES: usize = 200;
/// The pause before a failed ADD is made again.
const PAUSE: Duration = Duration::from_millis(200);

/// What is asked of a swarm.
#[derive(Clone, Debug)]
pub struct SwarmWorkload {
    /// How many addresses.
    pub addresses: usize,
    /// How many at once.
    pub at_once: usize,
    /// The `ipam` object, as JSON.
    pub ipam: String,
    /// Kill a daemon now and then.
    pub kill: bool,
    /// Whether the member's kernel gets the addresses too.
    pub assign_in_kernel: bool,
    /// What begins the names of sandboxes; another one for each errand.
    pub name: String,
}

/// Run it. `half_way` is called once, when half of the addresses are assigned.
pub fn run_workload(
    swarm: &Swarm,
    errand: &SwarmWorkload,
    half_way: impl Fn() -> Result<()> + Sync,
) -> Result<SwarmReport> {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"swarm","type":"none","ipam":{}}}"#, errand.ipam);
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let half = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let report = Mutex::new(SwarmReport::default());
    let begin = Instant::now();
    let lock = || report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| -> Result<()> {
        let killing = errand.kill.then(|| {
            scope.spawn(|| -> Result<()> {
                // Not random, but at no particular moment of any ADD. One that has served nothing since it was started is
                // left alone most of the time: on a busy machine none would ever come to it.
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
        let workers: Vec<_> = (0..errand.at_once)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= errand.addresses {
                            return Ok(());
                        }
                        add_with_retries(swarm, errand, &config, number, &report)?;
                        let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
                        if so_far * 2 >= errand.addresses && !half.swap(true, Ordering::Relaxed) {
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
            results.push(killing.join().unwrap_or_else(|_| bail!("the killer panicked")));
        }
        results.into_iter().collect()
    })?;
    let mut report = report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.seconds = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// One interface, tried as a kubelet does: each time in a new sandbox, after the old one is deleted.
fn add_with_retries(
    swarm: &Swarm,
    errand: &SwarmWorkload,
    config: &str,
    number: usize,
    report: &Mutex<SwarmReport>,
) -> Result<()> {
    let member = &swarm.members[number % swarm.members.len()];
    let interface = format!("{}{number}", errand.name);
    let lock = || report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for attempt in 0..MAX_TRIES {
        let container = format!("{interface}-{attempt}");
        let begin = Instant::now();
        let (good, answer) = member.call_plugin("ADD", &container, &interface, config)?;
        let time = begin.elapsed();
        if let Some(address) = answer["ips"][0]["address"].as_str().filter(|_| good) {
            member.mark_served();
            let (node, address) = (member.name.clone(), address.to_owned());
            if errand.assign_in_kernel {
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
        let (good, answer) = member.call_plugin("DEL", &container, &interface, config)?;
        if !good {
            bail!("DEL of {container} failed: {answer}");
        }
        std::thread::sleep(PAUSE);
    }
    bail!("{interface}: no address in {MAX_TRIES} tries; the last: {:?}", lock().last_failure)
}

fn error_text(answer: &Value) -> String {
    format!(
        "{} {}",
        answer["msg"].as_str().unwrap_or_default(),
        answer["details"].as_str().unwrap_or_default()
    )
}
