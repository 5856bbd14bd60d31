//! Checks of daemons, nodes, pods and pools.

use super::finding::DoctorFinding;
use crate::status::StatusReport;
use ferroband_model::FaultCode;
use std::collections::BTreeSet;

/// Usage in percent from which a pool counts as nearly full.
const NEARLY_FULL_PERCENT: u64 = 90;
/// More restarts than this are reported.
const MAX_RESTARTS: i32 = 5;

/// Checks daemons, nodes, pods and pools, and adds a finding for each entry of `report.unseen`.
pub fn check(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = daemons(report);
    findings.extend(nodes(report));
    findings.extend(pods(report));
    findings.extend(pools(report));
    findings.extend(
        report
            .unseen
            .iter()
            .map(|what| DoctorFinding::note("permissions", what, "run again with permission to read it")),
    );
    findings
}

fn daemons(report: &StatusReport) -> Vec<DoctorFinding> {
    if report.daemons.is_empty() {
        let remedy = "ferroband crds apply; ferroband manifests | kubectl apply -f -";
        return vec![DoctorFinding::problem("daemons", "Ferroband is not running in this cluster", remedy)];
    }
    let mut findings = Vec::new();
    for daemon in &report.daemons {
        let check = format!("daemon {}", daemon.pod);
        let log = format!("kubectl -n {} logs {}", daemon.namespace, daemon.pod);
        if !daemon.ready {
            let node = daemon.node.as_deref().unwrap_or("no node");
            findings.push(DoctorFinding::problem(check, format!("not ready on {node}"), log));
        } else if daemon.restarts > MAX_RESTARTS {
            let seen = format!("restarted {} times", daemon.restarts);
            findings.push(DoctorFinding::note(check, seen, format!("{log} --previous")));
        }
    }
    let of =
        |component: &'static str| report.daemons.iter().filter(move |daemon| daemon.component == component);
    if of("cluster").count() == 0 {
        findings.push(DoctorFinding::problem(
            "cluster daemon",
            "not running",
            "kubectl -n ferroband-system get deployment",
        ));
    } else if of("cluster").any(|daemon| daemon.ready) && !of("cluster").any(|daemon| daemon.leads) {
        let remedy = "wait half a minute, then check the logs of the cluster daemons";
        findings.push(DoctorFinding::problem("cluster daemon", "no replica is the leader", remedy));
    }
    let images: BTreeSet<_> = report.daemons.iter().filter_map(|daemon| daemon.image.as_deref()).collect();
    if images.len() > 1 {
        let seen = format!("several images: {}", images.into_iter().collect::<Vec<_>>().join(", "));
        findings.push(DoctorFinding::note("versions", seen, "an update is in progress or was interrupted"));
    }
    if findings.is_empty() {
        let leader = of("cluster").find(|daemon| daemon.leads).map_or("none", |daemon| daemon.pod.as_str());
        let seen = format!("{} ready, leader {leader}", report.daemons.len());
        findings.push(DoctorFinding::ok("daemons", seen));
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
                "fix what the message names; it is rechecked automatically",
            ));
        }
    }
    if findings.is_empty() {
        let simulated = report.nodes.iter().filter(|node| node.simulated).count();
        let seen = match simulated {
            0 => format!("{} nodes", report.nodes.len()),
            count => format!("{} nodes, {count} with simulated hardware", report.nodes.len()),
        };
        findings.push(DoctorFinding::ok("nodes", seen));
    }
    findings
}

fn pods(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let mut interfaces = 0;
    for row in &report.pods {
        match &row.message {
            Some(message) => {
                let remedy = match FaultCode::from_name(&row.state) {
                    Some(code) => format!("ferroband explain {}", code.reason()),
                    None => "provide what the message names: a ready node, or a free resource".to_owned(),
                };
                findings.push(DoctorFinding::problem(
                    format!("pod {}/{}", row.namespace, row.pod),
                    message,
                    remedy,
                ));
            }
            None => interfaces += 1,
        }
    }
    findings.dedup();
    if findings.is_empty() {
        findings.push(DoctorFinding::ok(
            "pods",
            format!("{interfaces} interfaces, no pod is waiting with an error"),
        ));
    }
    findings
}

fn pools(report: &StatusReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for pool in &report.addresses {
        let Some(total) = pool.total.filter(|total| *total > 0) else { continue };
        let seen = format!("{} of {total} addresses used", pool.used);
        if pool.used >= total {
            findings.push(DoctorFinding::problem(
                &pool.name,
                seen,
                "extend the pool, or delete pods that no longer need it",
            ));
        } else if pool.used * 100 >= total * NEARLY_FULL_PERCENT {
            findings.push(DoctorFinding::note(&pool.name, seen, "extend the pool before it is full"));
        }
    }
    if findings.is_empty() && !report.addresses.is_empty() {
        let used: u64 =
            report.addresses.iter().filter(|space| space.blocks.is_some()).map(|space| space.used).sum();
        findings.push(DoctorFinding::ok("addresses", format!("{used} assigned, no pool is nearly full")));
    }
    findings
}
