//! The daemons, the nodes, the pods that wait and the pools.

use super::finding::Finding;
use crate::status::Report;
use ferroband_model::FaultCode;
use std::collections::BTreeSet;

/// From how many hundredths of a pool on it counts as nearly full.
const NEARLY_FULL: u64 = 90;
/// A daemon that was started anew more often than this has a problem.
const RESTARTS: i32 = 5;

/// Look at the whole picture.
pub fn look(report: &Report) -> Vec<Finding> {
    let mut findings = daemons(report);
    findings.extend(nodes(report));
    findings.extend(pods(report));
    findings.extend(pools(report));
    findings.extend(
        report
            .unseen
            .iter()
            .map(|what| Finding::note("rights", what, "ask again as somebody who may read it")),
    );
    findings
}

fn daemons(report: &Report) -> Vec<Finding> {
    if report.daemons.is_empty() {
        let remedy = "ferroband crds apply; ferroband manifests | kubectl apply -f -";
        return vec![Finding::wrong("daemons", "Ferroband does not run in this cluster", remedy)];
    }
    let mut findings = Vec::new();
    for daemon in &report.daemons {
        let check = format!("daemon {}", daemon.pod);
        let log = format!("kubectl -n {} logs {}", daemon.namespace, daemon.pod);
        if !daemon.ready {
            let node = daemon.node.as_deref().unwrap_or("no node");
            findings.push(Finding::wrong(check, format!("not ready on {node}"), log));
        } else if daemon.restarts > RESTARTS {
            let seen = format!("started anew {} times", daemon.restarts);
            findings.push(Finding::note(check, seen, format!("{log} --previous")));
        }
    }
    let of =
        |component: &'static str| report.daemons.iter().filter(move |daemon| daemon.component == component);
    if of("cluster").count() == 0 {
        findings.push(Finding::wrong("cluster daemon", "none", "kubectl -n ferroband-system get deployment"));
    } else if of("cluster").any(|daemon| daemon.ready) && !of("cluster").any(|daemon| daemon.leads) {
        let remedy = "wait half a minute; then see the logs of the cluster daemons";
        findings.push(Finding::wrong("cluster daemon", "none of them leads", remedy));
    }
    let images: BTreeSet<_> = report.daemons.iter().filter_map(|daemon| daemon.image.as_deref()).collect();
    if images.len() > 1 {
        let seen = format!("several: {}", images.into_iter().collect::<Vec<_>>().join(", "));
        findings.push(Finding::note("versions", seen, "an update is under way, or was left half-way"));
    }
    if findings.is_empty() {
        let leader = of("cluster").find(|daemon| daemon.leads).map_or("none", |daemon| daemon.pod.as_str());
        let seen = format!("{} ready, leader {leader}", report.daemons.len());
        findings.push(Finding::good("daemons", seen));
    }
    findings
}

fn nodes(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in &report.nodes {
        let check = format!("node {}", node.name);
        if node.ready && node.daemon.is_none() {
            let remedy = "see the DaemonSet's node selector and tolerations, and the node's free resources";
            findings.push(Finding::wrong(&check, "no node daemon runs there", remedy));
        }
        for problem in &node.problems {
            findings.push(Finding::wrong(
                &check,
                problem,
                "correct what the message names; it is looked at again by itself",
            ));
        }
    }
    if findings.is_empty() {
        let simulated = report.nodes.iter().filter(|node| node.simulated).count();
        let seen = match simulated {
            0 => format!("{} nodes", report.nodes.len()),
            count => format!("{} nodes, {count} with simulated hardware", report.nodes.len()),
        };
        findings.push(Finding::good("nodes", seen));
    }
    findings
}

fn pods(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut interfaces = 0;
    for row in &report.pods {
        match &row.message {
            Some(message) => {
                let remedy = match FaultCode::named(&row.state) {
                    Some(code) => format!("ferroband explain {}", code.reason()),
                    None => "give it what the message names: a node that is ready, a resource that is free"
                        .to_owned(),
                };
                findings.push(Finding::wrong(format!("pod {}/{}", row.namespace, row.pod), message, remedy));
            }
            None => interfaces += 1,
        }
    }
    findings.dedup();
    if findings.is_empty() {
        findings.push(Finding::good("pods", format!("{interfaces} interfaces, none waits with an error")));
    }
    findings
}

fn pools(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pool in &report.addresses {
        let Some(total) = pool.total.filter(|total| *total > 0) else { continue };
        let seen = format!("{} of {total} addresses used", pool.used);
        if pool.used >= total {
            findings.push(Finding::wrong(
                &pool.name,
                seen,
                "widen the pool, or delete pods that no longer need it",
            ));
        } else if pool.used * 100 >= total * NEARLY_FULL {
            findings.push(Finding::note(&pool.name, seen, "widen the pool before it is full"));
        }
    }
    if findings.is_empty() && !report.addresses.is_empty() {
        let used: u64 =
            report.addresses.iter().filter(|space| space.granules.is_some()).map(|space| space.used).sum();
        findings.push(Finding::good("addresses", format!("{used} assigned, no pool is nearly full")));
    }
    findings
}
