//! Members against a lab's API server: one run per number of members.

use super::metrics::ApiServerMetrics;
use super::program::MembersProcess;
use super::report::{MembersRow, PhaseRow};
use anyhow::Result;
use ferroband_lab::cluster::Lab;
use ferroband_lab::command::{output, run_with_input};
use ferroband_lab::progress::{ProgressStep, run_step};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Label of all objects of the benchmark.
const LABEL: &str = "ferroband.lab/scale";
/// Blocks of the pool per member. With fewer than two the limits do not apply.
const BLOCKS_PER_MEMBER: usize = 2;
/// Pods that each member starts, one after another.
const PODS_PER_MEMBER: usize = 8;
/// The pool of document 001.
const SMALL_POOL: (&str, usize) = ("scale-document-001", 21);
/// How long the members may take to know a new pool.
const POOL_DELAY: Duration = Duration::from_secs(4);

/// Runs all phases with `count` members and deletes what it created.
pub fn measure(lab: &Lab, program: &Path, count: usize) -> Result<MembersRow> {
    run_step(format!("{count} members"), |step| {
        create_objects(lab, count)?;
        let measured = run_phases(lab, program, count, step);
        measured.and_then(|row| delete_objects(lab).map(|()| row))
    })
}

fn run_phases(lab: &Lab, program: &Path, count: usize, step: &mut ProgressStep) -> Result<MembersRow> {
    std::thread::sleep(POOL_DELAY);
    let mut members = MembersProcess::start(lab, program)?;
    let before = read_leader(lab)?;
    let pool = pool_name(count);
    let mut run = |command: String| -> Result<PhaseRow> {
        step.update(&command);
        let before = ApiServerMetrics::read(lab)?;
        let own = members.run(&command)?;
        let counted = ApiServerMetrics::read(lab)?.since(&before);
        let delivered = counted.deliveries();
        Ok(PhaseRow {
            own,
            deliveries: delivered.events,
            delivered_bytes: delivered.bytes,
            deliveries_by_kind: counted.deliveries_by_kind(),
            server_requests: counted.requests(),
            server_conflicts: counted.conflicts(),
            server_requests_all: counted.all_requests(),
        })
    };
    let mut row = MembersRow { members: count, ..MembersRow::default() };
    row.start = run(format!("start {count}"))?;
    row.assign = run(format!("assign {PODS_PER_MEMBER} {pool}"))?;
    row.restart = run("restart".to_owned())?;
    row.release = run("release".to_owned())?;
    row.sticky_first = run(format!("sticky {pool}"))?;
    row.sticky_release = run("sticky-release".to_owned())?;
    row.sticky_move = run("sticky-move".to_owned())?;
    run("sticky-release".to_owned())?;
    row.small_pool = run(format!("fill {} {}", SMALL_POOL.1, SMALL_POOL.0))?;
    run("release".to_owned())?;
    let after = read_leader(lab)?;
    row.leader_cpu_seconds = after.0 - before.0;
    row.leader_resident_mb = after.1;
    Ok(row)
}

fn pool_name(members: usize) -> String {
    format!("scale-{members}")
}

/// Creates a Node per member, which no DaemonSet matches, the pools, and the StatefulSet of the sticky pods.
fn create_objects(lab: &Lab, members: usize) -> Result<()> {
    delete_objects(lab)?;
    let labels = json!({LABEL: "true", "kubernetes.io/os": "none"});
    let node = |member| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("scale-{member}"), "labels": labels},
            "spec": {"unschedulable": true}})
    };
    let mut objects: Vec<Value> = (0..members).map(node).collect();
    let pool = |name: &str, subnet: &str, ips: String| {
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": name, "labels": labels}, "spec": {"subnet": subnet, "ips": [ips]}})
    };
    let last = members * BLOCKS_PER_MEMBER * 16 - 1;
    objects.push(pool(
        &pool_name(members),
        "10.210.0.0/16",
        format!("10.210.0.0-10.210.{}.{}", last / 256, last % 256),
    ));
    objects.push(pool(SMALL_POOL.0, "172.93.0.0/16", "172.93.0.100-172.93.0.120".to_owned()));
    // No node matches, and the pods start in order, so the set has one pod, which stays pending.
    let set = json!({"app": "scale-sticky"});
    objects.push(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "scale-sticky", "namespace": "default", "labels": labels},
        "spec": {"replicas": members, "selector": {"matchLabels": set}, "serviceName": "scale-sticky",
            "template": {"metadata": {"labels": set}, "spec": {
                "nodeSelector": {LABEL: "no such node"}, "containers": [{"name": "c", "image": "none"}]}}}}));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    run_with_input(lab.kubectl()?.args(["create", "-f", "-"]).stdout(Stdio::null()), &list).map(drop)
}

fn delete_objects(lab: &Lab) -> Result<()> {
    let selector = format!("{LABEL}=true");
    let kinds = "statefulsets.apps,spiderippools.spiderpool.spidernet.io,nodes";
    output(lab.kubectl()?.args(["delete", kinds, "-l", &selector, "--ignore-not-found", "--timeout=180s"]))
        .map(drop)
}

/// CPU time of all cluster daemons in seconds, and the resident memory of the largest in MB.
fn read_leader(lab: &Lab) -> Result<(f64, f64)> {
    let script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | \
        grep -q '^/usr/bin/ferroband cluster' && \
        echo $(grep VmRSS: $p/status | tr -dc 0-9) $(sed 's/.*) //' $p/stat | cut -d' ' -f12,13); done; true";
    let (mut ticks, mut resident) = (0.0, 0.0_f64);
    for node in lab.nodes()? {
        let text = output(lab.exec(&node)?.args(["sh", "-c", script]).stdin(Stdio::null()))?;
        for line in text.lines() {
            let fields: Vec<f64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
            if let [kilobytes, user, system] = fields[..] {
                ticks += user + system;
                resident = resident.max(kilobytes * 1024.0 / 1e6);
            }
        }
    }
    Ok((ticks / 100.0, resident))
}
