//! The tests, one after the other, and their verdicts.

use std::time::{Duration, Instant};

use crate::kernel_log::KernelLog;
use crate::program;

const FABRIC: &str = "/lab/guest/fabric-up";
const SETTLE: &str = "/lab/guest/settle";
const REPORT: &str = "/lab/guest/report";
const PEER: &str = "/lab/guest/peer";
const PREPARATION: Duration = Duration::from_secs(600);

/// Runs everything on the list for so many machines; without a fabric nothing else is tried.
pub fn run(machines: &str) {
    let fabric = if machines == "1" { "fabric" } else { "fabric-of-two" };
    if !judge(fabric, FABRIC, PREPARATION, false) {
        return;
    }
    let list = std::fs::read_to_string(format!("/lab/tests-{machines}.list")).unwrap_or_default();
    for line in list.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[name, limit, path] = words.as_slice() else {
            println!("init: list of tests: not \"name seconds path\": {line}");
            continue;
        };
        let limit = Duration::from_secs(limit.parse().unwrap_or(60));
        judge(name, path, limit, true);
    }
}

/// What a machine does that only answers another one's tests; ends when the host ends the machine.
pub fn serve() {
    let ended = program::run(PEER, Duration::MAX);
    println!("peer ended: {} {}", ended.failure.unwrap_or_default(), ended.last_line);
}

fn judge(name: &str, path: &str, limit: Duration, settle: bool) -> bool {
    println!("=== {name}");
    let mut log = KernelLog::from_here();
    let start = Instant::now();
    let ended = program::run(path, limit);
    let seconds = start.elapsed().as_secs_f32();
    let mut reason = ended.failure.map(|failure| {
        if ended.last_line.is_empty() { failure } else { format!("{failure}: {}", ended.last_line) }
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
    if let Some(complaint) = log.complaint() {
        reason = Some(format!("kernel log: {complaint}"));
    }
    match &reason {
        None => println!("VERDICT pass {name} {seconds:.1}s"),
        Some(reason) => println!("VERDICT fail {name} {seconds:.1}s {}", reason.replace(['\r', '\n'], " ")),
    }
    reason.is_none()
}
