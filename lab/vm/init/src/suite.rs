//! Mode `test`: runs the tests one after the other and prints their verdicts.

use std::time::{Duration, Instant};

use crate::kernel_log::KernelLog;
use crate::program;

const FABRIC: &str = "/lab/guest/fabric-up";
const SETTLE: &str = "/lab/guest/settle";
const REPORT: &str = "/lab/guest/report";
const PEER: &str = "/lab/guest/peer";
const PREPARATION: Duration = Duration::from_secs(600);

/// Runs the list of tests for this number of machines; stops if the fabric does not come up.
pub fn run(machines: &str) {
    let fabric = if machines == "1" { "fabric" } else { "fabric-of-two" };
    if !run_test(fabric, FABRIC, PREPARATION, false) {
        return;
    }
    let list = std::fs::read_to_string(format!("/lab/tests-{machines}.list")).unwrap_or_default();
    for line in list.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[name, limit, path] = words.as_slice() else {
            println!("init: invalid line in the list of tests, expected \"name seconds path\": {line}");
            continue;
        };
        let limit = Duration::from_secs(limit.parse().unwrap_or(60));
        run_test(name, path, limit, true);
    }
}

/// Mode `peer`: serves another machine's tests until the host stops this machine.
pub fn serve() {
    let outcome = program::run(PEER, Duration::MAX);
    println!("peer ended: {} {}", outcome.failure.unwrap_or_default(), outcome.last_line);
}

fn run_test(name: &str, path: &str, limit: Duration, settle: bool) -> bool {
    println!("=== {name}");
    let mut log = KernelLog::from_now();
    let start = Instant::now();
    let outcome = program::run(path, limit);
    let seconds = start.elapsed().as_secs_f32();
    let mut reason = outcome.failure.map(|failure| {
        if outcome.last_line.is_empty() { failure } else { format!("{failure}: {}", outcome.last_line) }
    });
    if reason.is_some() {
        program::run(REPORT, PREPARATION);
    }
    if settle {
        let settled = program::run(SETTLE, PREPARATION);
        if reason.is_none() && settled.failure.is_some() {
            reason = Some(format!("left behind: {}", settled.last_line));
        }
    }
    if let Some(message) = log.first_forbidden() {
        reason = Some(format!("kernel log: {message}"));
    }
    match &reason {
        None => println!("VERDICT pass {name} {seconds:.1}s"),
        Some(reason) => println!("VERDICT fail {name} {seconds:.1}s {}", reason.replace(['\r', '\n'], " ")),
    }
    reason.is_none()
}
