//! The report as tables.

use super::limits::ScaleLimit;
use super::report::{MembersRow, PhaseRow, ScaleReport};

/// Prints all figures, then the limits.
pub fn print(report: &ScaleReport, limits: &[ScaleLimit]) {
    if !report.members.is_empty() {
        println!("members against the lab's API server, per address:");
        println!(
            "  {:>7} {:<16} {:>9} {:>9} {:>10} {:>10} {:>9} {:>8} {:>8} {:>8}",
            "members",
            "phase",
            "addresses",
            "requests",
            "deliveries",
            "bytes",
            "conflicts",
            "p50 ms",
            "p99 ms",
            "failures"
        );
    }
    for row in &report.members {
        print_members(row);
    }
    for (figure, exponent) in &report.growth {
        println!("  growth of {figure}: members^{exponent:.2}");
    }
    if !report.model.is_empty() {
        println!("model:");
        println!(
            "  {:>6} {:<24} {:>9} {:>12} {:>9} {:>6} {:>7} {:>6} {:>8} {:>8}",
            "nodes",
            "scenario",
            "addresses",
            "per address",
            "conflicts",
            "rounds",
            "refused",
            "failed",
            "p50 ms",
            "p99 ms"
        );
    }
    for row in &report.model {
        println!(
            "  {:>6} {:<24} {:>9} {:>12.3} {:>9} {:>6} {:>7} {:>6} {:>8.0} {:>8.0}",
            row.nodes,
            row.scenario,
            row.addresses,
            row.requests_per_address,
            row.conflicts,
            row.most_rounds,
            row.refused,
            row.failed,
            row.p50_millis,
            row.p99_millis
        );
    }
    if let Some(row) = &report.leader {
        println!("leader of {} nodes, {} GUIDs, {} addresses:", row.nodes, row.guids, row.addresses);
        println!("  start: {:.1} s, {} writes", row.start_seconds, row.start_writes);
        println!(
            "  a change on every node is told to all: {:.1} s, {} not told",
            row.told_seconds, row.not_told
        );
        println!("  memory: {:.0} MB, peak {:.0} MB", row.resident_mb, row.peak_mb);
        println!(
            "  idle: {:.1} % of a core, {:.2} requests/s, with {:.0} heartbeats/s",
            row.idle_cpu_percent, row.idle_requests_per_second, row.heartbeats_per_second
        );
    }
    println!("limits:");
    for limit in limits {
        let verdict = if limit.holds() { "ok    " } else { "MISSED" };
        println!("  {verdict} {}: {:.2}, at most {}", limit.what, limit.value, limit.most);
    }
}

fn print_members(row: &MembersRow) {
    let phases = [
        ("assignment", &row.assign),
        ("release", &row.release),
        ("sticky, first", &row.sticky_first),
        ("sticky, release", &row.sticky_release),
        ("sticky, moved", &row.sticky_move),
        ("pool of 21", &row.small_pool),
    ];
    for (name, phase) in phases {
        print_phase(row.members, name, phase);
    }
    for (name, phase) in [("start", &row.start), ("restart", &row.restart)] {
        println!(
            "  {:>7} {name}: {:.1} requests per member, at most {}; unbounded: {:?}",
            row.members,
            phase.requests() as f64 / row.members as f64,
            phase.own.most_requests,
            phase.own.counts.unbounded
        );
    }
    println!(
        "  {:>7} cluster daemons: {:.1} s of CPU, {:.0} MB",
        row.members, row.leader_cpu_seconds, row.leader_resident_mb
    );
}

fn print_phase(members: usize, name: &str, phase: &PhaseRow) {
    let bytes = phase.delivered_bytes / phase.own.addresses.max(1) as f64;
    println!(
        "  {members:>7} {name:<16} {:>9} {:>9.2} {:>10.2} {bytes:>10.0} {:>9} {:>8.1} {:>8.1} {:>8}",
        phase.own.addresses,
        phase.requests_per_address(),
        phase.deliveries_per_address(),
        phase.own.counts.conflicts,
        phase.own.p50_millis,
        phase.own.p99_millis,
        phase.own.failures
    );
    if let Some(failure) = &phase.own.last_failure {
        println!("          last failure: {failure}");
    }
}
