//! The limits that `--check` enforces.

use super::report::{LeaderRow, MembersRow, ModelRow, ScaleReport};
use serde::Serialize;

/// A figure grows if its exponent exceeds this. A constant figure varies by less from run to run.
const MAX_EXPONENT: f64 = 0.1;

/// One line of the acceptance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaleLimit {
    pub what: String,
    pub value: f64,
    pub most: f64,
}

impl ScaleLimit {
    pub fn holds(&self) -> bool {
        self.value <= self.most
    }
}

/// Compares all figures of the report with their limits.
pub fn limits(report: &ScaleReport) -> Vec<ScaleLimit> {
    let mut limits = Vec::new();
    let mut at_most = |what: String, value: f64, most: f64| limits.push(ScaleLimit { what, value, most });
    for row in &report.members {
        member_limits(row, &mut at_most);
    }
    for figure in ["requests per assigned address", "deliveries per assigned address"] {
        if let Some(exponent) = report.growth.get(figure) {
            at_most(format!("growth of {figure} (exponent)"), *exponent, MAX_EXPONENT);
        }
    }
    for row in &report.model {
        model_limits(row, &mut at_most);
    }
    if let Some(row) = &report.leader {
        leader_limits(row, &mut at_most);
    }
    limits
}

fn member_limits(row: &MembersRow, at_most: &mut impl FnMut(String, f64, f64)) {
    let name = |what: &str| format!("{} members: {what}", row.members);
    at_most(name("watch deliveries per assigned address"), row.assign.deliveries_per_address(), 3.0);
    at_most(name("requests per assigned address"), row.assign.requests_per_address(), 1.5);
    at_most(name("requests of a restarted member"), row.restart.own.most_requests as f64, 25.0);
    let unbounded: u64 = row.restart.own.counts.unbounded.values().sum();
    at_most(name("unbounded lists at restart"), unbounded as f64, 0.0);
    let phases = [&row.assign, &row.release, &row.sticky_first, &row.sticky_move, &row.small_pool];
    let unserved: usize = phases.iter().map(|phase| phase.own.unserved).sum();
    at_most(name("assignments and releases that never succeeded"), unserved as f64, 0.0);
}

fn model_limits(row: &ModelRow, at_most: &mut impl FnMut(String, f64, f64)) {
    let name = |what: &str| format!("model of {} nodes, {}: {what}", row.nodes, row.scenario);
    if row.scenario.contains("rails") {
        at_most(name("requests per address"), row.requests_per_address, 1.3);
        at_most(name("rounds of the slowest node"), row.most_rounds as f64, 5.0);
    }
    at_most(name("refused while an address is free"), (row.refused + row.failed) as f64, 0.0);
    at_most(name("pods without an address"), row.without_address as f64, 0.0);
    at_most(name("addresses assigned twice"), row.duplicates as f64, 0.0);
}

fn leader_limits(row: &LeaderRow, at_most: &mut impl FnMut(String, f64, f64)) {
    let name = |what: &str| format!("leader of {} nodes: {what}", row.nodes);
    at_most(name("seconds until a change on every node is told to all"), row.told_seconds, 10.0);
    at_most(name("nodes that were not told"), row.not_told as f64, 0.0);
    at_most(name("memory in MB"), row.peak_mb, 500.0);
    at_most(name("idle CPU in percent of a core"), row.idle_cpu_percent, 2.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(report: &ScaleReport) -> Vec<String> {
        limits(report).into_iter().filter(|limit| !limit.holds()).map(|limit| limit.what).collect()
    }

    #[test]
    fn a_missed_limit_names_its_line() {
        let mut report = ScaleReport::default();
        assert_eq!(missed(&report), [""; 0]);
        let scenario = "8 rails with a /16 each".to_owned();
        report.model.push(ModelRow {
            nodes: 1000,
            scenario,
            requests_per_address: 1.31,
            ..ModelRow::default()
        });
        report.leader =
            Some(LeaderRow { nodes: 10, told_seconds: 10.0, peak_mb: 501.0, ..LeaderRow::default() });
        let expected = [
            "model of 1000 nodes, 8 rails with a /16 each: requests per address",
            "leader of 10 nodes: memory in MB",
        ];
        assert_eq!(missed(&report), expected);
    }

    #[test]
    fn requests_that_grow_with_the_members_miss_the_limit() {
        let mut report = ScaleReport::default();
        for members in [16, 64, 256] {
            let mut row = MembersRow { members, ..MembersRow::default() };
            row.assign.own.addresses = 100;
            row.assign.own.counts.requests.insert("apply addressblocks".into(), members as u64 / 2);
            report.members.push(row);
        }
        report.fit();
        assert_eq!(missed(&report), ["growth of requests per assigned address (exponent)"]);
    }
}
