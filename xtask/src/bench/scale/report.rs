//! Figures of `cargo xtask bench scale`.

use super::fit::growth_exponent;
use super::plot::{PlotPanel, PlotSeries};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct ScaleReport {
    pub members: Vec<MembersRow>,
    pub model: Vec<ModelRow>,
    pub leader: Option<LeaderRow>,
    /// Exponents of the growth with the number of members.
    pub growth: BTreeMap<String, f64>,
}

/// Figures with one number of members.
#[derive(Debug, Default, Serialize)]
pub struct MembersRow {
    pub members: usize,
    pub start: PhaseRow,
    pub assign: PhaseRow,
    pub restart: PhaseRow,
    pub release: PhaseRow,
    pub sticky_first: PhaseRow,
    pub sticky_release: PhaseRow,
    pub sticky_move: PhaseRow,
    /// The 21 addresses of document 001, shared by all members.
    pub small_pool: PhaseRow,
    pub leader_cpu_seconds: f64,
    pub leader_resident_mb: f64,
}

/// Figures of one phase.
#[derive(Debug, Default, Serialize)]
pub struct PhaseRow {
    #[serde(flatten)]
    pub own: MemberPhase,
    /// Watch events of our kinds to all clients, and their bytes.
    pub deliveries: f64,
    pub delivered_bytes: f64,
    pub deliveries_by_kind: BTreeMap<String, f64>,
    /// Requests of all clients for our kinds, as the API server counted them.
    pub server_requests: BTreeMap<String, f64>,
    pub server_conflicts: f64,
    /// Requests of all clients for any kind.
    pub server_requests_all: f64,
}

/// What the members counted themselves.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MemberPhase {
    pub addresses: usize,
    pub failures: usize,
    pub unserved: usize,
    pub last_failure: Option<String>,
    pub counts: MemberRequests,
    pub most_requests: u64,
    pub seconds: f64,
    pub p50_millis: f64,
    pub p99_millis: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MemberRequests {
    pub requests: BTreeMap<String, u64>,
    pub conflicts: u64,
    pub unbounded: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelRow {
    pub scenario: String,
    pub nodes: usize,
    pub addresses: usize,
    pub requests: usize,
    pub conflicts: usize,
    pub lists: usize,
    pub requests_per_address: f64,
    pub most_rounds: usize,
    pub rounds: BTreeMap<usize, usize>,
    pub refused: usize,
    pub failed: usize,
    pub last_failure: Option<String>,
    pub duplicates: usize,
    pub without_address: usize,
    pub p50_millis: f64,
    pub p99_millis: f64,
    pub simulated_seconds: f64,
    pub seconds: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LeaderRow {
    pub nodes: usize,
    pub guids: usize,
    pub addresses: usize,
    pub start_seconds: f64,
    pub start_writes: u64,
    pub told_seconds: f64,
    pub not_told: usize,
    pub resident_mb: f64,
    pub peak_mb: f64,
    pub idle_cpu_percent: f64,
    pub idle_requests_per_second: f64,
    pub idle_requests: BTreeMap<String, u64>,
    pub heartbeats_per_second: f64,
}

impl PhaseRow {
    pub fn requests(&self) -> u64 {
        self.own.counts.requests.values().sum()
    }

    pub fn requests_per_address(&self) -> f64 {
        self.requests() as f64 / self.own.addresses.max(1) as f64
    }

    pub fn deliveries_per_address(&self) -> f64 {
        self.deliveries / self.own.addresses.max(1) as f64
    }
}

impl ScaleReport {
    /// Computes the growth from the rows.
    pub fn fit(&mut self) {
        let of = |figure: fn(&MembersRow) -> f64| self.member_points(figure);
        let figures = [
            ("requests per assigned address", of(|row| row.assign.requests_per_address())),
            ("requests per released address", of(|row| row.release.requests_per_address())),
            ("requests per sticky address", of(|row| row.sticky_move.requests_per_address())),
            ("deliveries per assigned address", of(|row| row.assign.deliveries_per_address())),
            ("requests per restarted member", of(|row| row.restart.own.most_requests as f64)),
        ];
        for (name, points) in figures {
            self.growth.extend(growth_exponent(&points).map(|exponent| (name.to_owned(), exponent)));
        }
    }

    fn member_points(&self, figure: fn(&MembersRow) -> f64) -> Vec<(f64, f64)> {
        self.members.iter().map(|row| (row.members as f64, figure(row))).collect()
    }

    /// The diagrams of the report.
    pub fn panels(&self) -> Vec<PlotPanel> {
        let series =
            |name: &str, figure| PlotSeries { name: name.to_owned(), points: self.member_points(figure) };
        let per_address = vec![
            series("requests, assignment", |row| row.assign.requests_per_address()),
            series("requests, release", |row| row.release.requests_per_address()),
            series("requests, sticky", |row| row.sticky_move.requests_per_address()),
            series("deliveries", |row| row.assign.deliveries_per_address()),
        ];
        let times = vec![
            series("p50", |row| row.assign.own.p50_millis),
            series("p99", |row| row.assign.own.p99_millis),
        ];
        let mut model: Vec<PlotSeries> = Vec::new();
        for row in &self.model {
            let name = format!("requests, {}", row.scenario);
            let known = model.iter().position(|series| series.name == name);
            let position = known.unwrap_or_else(|| {
                model.push(PlotSeries { name, points: Vec::new() });
                model.len() - 1
            });
            model[position].points.push((row.nodes as f64, row.requests_per_address));
        }
        let panel =
            |title: &str, sizes: &str, series| PlotPanel { title: title.into(), sizes: sizes.into(), series };
        vec![
            panel("per assigned address", "members", per_address),
            panel("milliseconds per assignment", "members", times),
            panel("model, per assigned address", "nodes", model),
        ]
    }
}
