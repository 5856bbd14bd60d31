//! Cluster checks of `ferroband doctor`: daemons, nodes, pods and address pools.

use super::finding::DoctorFinding;
use crate::status::StatusReport;
use std::collections::BTreeSet;

/// Usage in percent from which an address pool counts as nearly full.
const NEARLY_FULL_PERCENT: u64 = 90;
/// Number of container restarts above which a daemon is reported.
const MAX_RESTARTS: i32 = 5;

/// Checks daemons, nodes, pods and address pools. Adds a note for each kind of API object that could not be
/// listed (`report.unreadable`).
pub fn check(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = daemons(report);
    findings.extend(nodes(report));
    findings.extend(pods(report));
    findings.extend(pools(report));
    findings.extend(report.unreadable.iter().map(|what| {
        DoctorFinding::note("permissions", what, "grant permission to list it, or install its CRD")
    }));
    findings
}

fn daemons(report: &StatusReport) -> Vec<DoctorFinding> {
    if report.daemons.is_empty() {
        let remedy = "run `ferroband crds apply`, then `ferroband manifests | kubectl apply -f -`";
        return vec![DoctorFinding::problem("daemons", "Ferroband is not running in this cluster", remedy)];
    }
    let mut findings = Vec::new();
    for daemon in &report.daemons {
        let check = format!("daemon {}", daemon.pod);
        let log = format!("check its log: kubectl -n {} logs {}", daemon.namespace, daemon.pod);
        if !daemon.ready {
            let node = daemon.node.as_deref().unwrap_or("not assigned");
            findings.push(DoctorFinding::problem(check, format!("not ready; node: {node}"), log));
        } else if daemon.restarts > MAX_RESTARTS {
            let observed = format!("restarted {} times", daemon.restarts);
            findings.push(DoctorFinding::note(check, observed, format!("{log} --previous")));
        }
    }
    let of =
        |component: &'static str| report.daemons.iter().filter(move |daemon| daemon.component == component);
    if of("cluster").count() == 0 {
        findings.push(DoctorFinding::problem(
            "cluster daemon",
            "not running",
            "check its Deployment: kubectl -n ferroband-system get deployment",
        ));
    } else if of("cluster").any(|daemon| daemon.ready) && !of("cluster").any(|daemon| daemon.leads) {
        let remedy = "wait 30 seconds; if there is still no leader, check the logs of the cluster daemons";
        findings.push(DoctorFinding::problem("cluster daemon", "no replica is the leader", remedy));
    }
    let images: BTreeSet<_> = report.daemons.iter().filter_map(|daemon| daemon.image.as_deref()).collect();
    if images.len() > 1 {
        let observed = format!(
            "the daemons run different images: {}",
            images.into_iter().collect::<Vec<_>>().join(", ")
        );
        findings.push(DoctorFinding::note(
            "versions",
            observed,
            "wait for the update to finish, or repeat it",
        ));
    }
    if findings.is_empty() {
        let leader = of("cluster").find(|daemon| daemon.leads).map_or("none", |daemon| daemon.pod.as_str());
        let observed = format!("{} ready, leader {leader}", report.daemons.len());
        findings.push(DoctorFinding::ok("daemons", observed));
    }
    findings
}

fn nodes(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for node in &report.nodes {
        let check = format!("node {}", node.name);
        if node.ready && node.daemon.is_none() {
            let remedy = "check the DaemonSet's node selector and tolerations, and the node's free resources";
            findings.push(DoctorFinding::problem(&check, "no node daemon is running on it", remedy));
        }
        for problem in &node.problems {
            findings.push(DoctorFinding::problem(
                &check,
                problem,
                "fix the cause in the message; the node daemon checks again automatically",
            ));
        }
    }
    if findings.is_empty() {
        let simulated = report.nodes.iter().filter(|node| node.simulated).count();
        let observed = match simulated {
            0 => format!("{} nodes", report.nodes.len()),
            count => format!("{} nodes, {count} with simulated hardware", report.nodes.len()),
        };
        findings.push(DoctorFinding::ok("nodes", observed));
    }
    findings
}

fn pods(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let mut interfaces = 0;
    for row in &report.pods {
        match &row.message {
            Some(message) => {
                findings.push(DoctorFinding::problem(
                    format!("pod {}/{}", row.namespace, row.pod),
                    message,
                    row.remedy.as_deref().unwrap_or("run `ferroband status pods`"),
                ));
            }
            None => interfaces += 1,
        }
    }
    findings.dedup();
    if findings.is_empty() {
        findings.push(DoctorFinding::ok(
            "pods",
            format!("{interfaces} pod interfaces, no pod waits because of an error"),
        ));
    }
    findings
}

fn pools(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for pool in &report.addresses {
        let Some(total) = pool.total.filter(|total| *total > 0) else { continue };
        let observed = format!("{} of {total} addresses used", pool.used);
        if pool.used >= total {
            findings.push(DoctorFinding::problem(
                &pool.name,
                observed,
                "extend the pool, or delete pods that use its addresses",
            ));
        } else if pool.used * 100 >= total * NEARLY_FULL_PERCENT {
            findings.push(DoctorFinding::note(&pool.name, observed, "extend the pool before it is full"));
        }
    }
    if findings.is_empty() && !report.addresses.is_empty() {
        let used: u64 =
            report.addresses.iter().filter(|space| space.blocks.is_some()).map(|space| space.used).sum();
        findings.push(DoctorFinding::ok("addresses", format!("{used} assigned, no pool is nearly full")));
    }
    findings
}
