//! Decides how the cluster continues after a restore of etcd. Does no I/O.

use crate::node_liveness::NodeLoss;
use ferroband_api::ferroband::{AddressStateSpec, NodeAddressReport, NoticedRestore, RestorePhase};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// How long nodes at least have to write their entries again. A node whose objects the backup does not contain appears in
/// this time: its daemon asks a recovering API server at least every ten seconds.
pub const MIN_ASSERTION_TIME: Duration = Duration::from_secs(20);

/// What [`next_step`] depends on.
pub struct RestoreInputs<'a> {
    pub state: &'a AddressStateSpec,
    /// What the leader itself noticed.
    pub noticed: Option<&'a NoticedRestore>,
    /// The reports of all nodes that have a NodePartitions object; `None` if the node has reported nothing.
    pub reports: BTreeMap<String, Option<NodeAddressReport>>,
    pub lost_nodes: &'a BTreeMap<String, NodeLoss>,
    /// How long the leader has known the current epoch.
    pub known_for: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// No restore is under way.
    None,
    /// A restore was noticed. Nodes must write their entries again.
    Begin { reason: String },
    /// These nodes have not written their entries again. Empty if only [`MIN_ASSERTION_TIME`] has not passed.
    Wait { missing: Vec<String> },
    /// All nodes have written their entries again, or are lost.
    Complete,
}

/// Returns the next step. A report about another epoch than the current one is outdated: that restore is known.
pub fn next_step(inputs: &RestoreInputs<'_>) -> RestoreStep {
    let epoch = inputs.state.epoch();
    let by_leader = inputs.noticed.map(|noticed| ("the cluster daemon", noticed));
    let by_nodes = inputs.reports.iter().filter_map(|(node, report)| {
        let noticed = report.as_ref()?.noticed.as_ref()?;
        Some((node.as_str(), noticed)).filter(|_| !inputs.lost_nodes.contains_key(node))
    });
    let mut noticed = by_leader.into_iter().chain(by_nodes).filter(|(_, noticed)| noticed.epoch == epoch);
    if let Some((who, noticed)) = noticed.next() {
        return RestoreStep::Begin { reason: format!("{who}: {}", noticed.reason) };
    }
    if inputs.state.restore.as_ref().is_none_or(|restore| restore.phase == RestorePhase::Complete) {
        return RestoreStep::None;
    }
    let has_asserted = |report: &Option<NodeAddressReport>| {
        report.as_ref().is_some_and(|report| report.asserted_epoch == epoch)
    };
    let missing = inputs
        .reports
        .iter()
        .filter(|(node, report)| !has_asserted(report) && !inputs.lost_nodes.contains_key(*node))
        .map(|(node, _)| node.clone());
    let missing: Vec<String> = missing.collect();
    match missing.is_empty() && inputs.known_for >= MIN_ASSERTION_TIME {
        true => RestoreStep::Complete,
        false => RestoreStep::Wait { missing },
    }
}

/// Returns the newest epoch that the AddressState has or a node has asserted. Nodes know epochs that a restore undid.
pub fn newest_epoch(current: &str, reports: &BTreeMap<String, Option<NodeAddressReport>>) -> String {
    let asserted = reports.values().flatten().map(|report| report.asserted_epoch.as_str());
    asserted.chain([current]).max().unwrap_or_default().to_owned()
}

/// Returns an epoch that is newer than `newest`, also by the order of the texts: the time, unless clocks differ.
pub fn next_epoch(now: Timestamp, newest: &str) -> String {
    let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    if time.as_str() > newest { time } else { format!("{newest}+") }
}

/// Rounds a number of nodes up to a power of two. Keeps `before` while the number has not grown beyond it or fallen to a
/// quarter, because every node receives each change.
pub fn rounded_nodes(number: usize, before: i32) -> i32 {
    let rounded = i32::try_from(number.next_power_of_two()).unwrap_or(i32::MAX);
    let is_close = rounded <= before && rounded > before / 4;
    if is_close { before } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::ferroband::EtcdRestore;

    fn report(asserted: &str, noticed: Option<&str>) -> Option<NodeAddressReport> {
        let noticed =
            noticed.map(|epoch| NoticedRestore { epoch: epoch.into(), reason: "60 after 100".into() });
        Some(NodeAddressReport { asserted_epoch: asserted.into(), noticed, start: String::new() })
    }

    fn step(
        epoch: &str,
        phase: RestorePhase,
        reports: &[(&str, Option<NodeAddressReport>)],
        lost: &[&str],
        seconds: u64,
    ) -> RestoreStep {
        let restore = EtcdRestore { epoch: epoch.into(), phase, reason: String::new() };
        let state = AddressStateSpec { nodes: 0, restore: Some(restore).filter(|_| !epoch.is_empty()) };
        next_step(&RestoreInputs {
            state: &state,
            noticed: None,
            reports: reports.iter().map(|(node, report)| ((*node).to_owned(), report.clone())).collect(),
            lost_nodes: &lost.iter().map(|node| ((*node).to_owned(), NodeLoss::Deleted)).collect(),
            known_for: Duration::from_secs(seconds),
        })
    }

    #[test]
    fn a_restore_begins_once_whoever_notices_it() {
        let complete = RestorePhase::Complete;
        assert_eq!(step("", complete, &[("n1", report("", None)), ("n2", None)], &[], 99), RestoreStep::None);
        let begun =
            step("", complete, &[("n1", report("", Some(""))), ("n2", report("", Some("")))], &[], 99);
        assert_eq!(begun, RestoreStep::Begin { reason: "n1: 60 after 100".into() });
        // The report of n2 arrives when the restore is known.
        let known = step("e1", RestorePhase::Asserting, &[("n2", report("", Some("")))], &[], 99);
        assert_eq!(known, RestoreStep::Wait { missing: vec!["n2".into()] });
        // Another restore during the assertion.
        let again = step("e1", RestorePhase::Asserting, &[("n2", report("e1", Some("e1")))], &[], 99);
        assert!(matches!(again, RestoreStep::Begin { .. }));
        let lost = step("e1", complete, &[("n2", report("e1", Some("e1")))], &["n2"], 99);
        assert_eq!(lost, RestoreStep::None, "nothing on a lost node matters");
        let state = AddressStateSpec::default();
        let noticed = NoticedRestore { epoch: String::new(), reason: "60 after 100".into() };
        let by_leader = next_step(&RestoreInputs {
            state: &state,
            noticed: Some(&noticed),
            reports: BTreeMap::new(),
            lost_nodes: &BTreeMap::new(),
            known_for: Duration::ZERO,
        });
        assert_eq!(by_leader, RestoreStep::Begin { reason: "the cluster daemon: 60 after 100".into() });
    }

    #[test]
    fn assignment_opens_when_every_node_has_asserted_or_is_lost() {
        let asserting = RestorePhase::Asserting;
        let nodes = [("n1", report("e1", None)), ("n2", report("e0", None)), ("n3", None)];
        let missing = vec!["n2".to_owned(), "n3".to_owned()];
        assert_eq!(step("e1", asserting, &nodes, &[], 3600), RestoreStep::Wait { missing });
        assert_eq!(
            step("e1", asserting, &nodes, &["n3"], 99),
            RestoreStep::Wait { missing: vec!["n2".into()] }
        );
        assert_eq!(step("e1", asserting, &nodes, &["n2", "n3"], 99), RestoreStep::Complete);
        let early = step("e1", asserting, &nodes[..1], &[], 19);
        assert_eq!(
            early,
            RestoreStep::Wait { missing: vec![] },
            "nodes that the backup lacks may still report"
        );
        assert_eq!(step("e1", asserting, &nodes[..1], &[], 20), RestoreStep::Complete);
    }

    #[test]
    fn a_new_epoch_is_newer_than_all_that_nodes_know() {
        let at = |millis: i64| Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap();
        let times = [0, 1, 999, 1000, 86_400_000].map(|millis| next_epoch(at(millis), ""));
        assert!(times.is_sorted() && times[0].len() == times[2].len(), "{times:?}");
        let reports = BTreeMap::from([("n1".to_owned(), report(&times[4], None)), ("n2".to_owned(), None)]);
        assert_eq!(newest_epoch(&times[0], &reports), times[4]);
        assert_eq!(newest_epoch("", &BTreeMap::new()), "");
        let later = next_epoch(at(0), &times[4]);
        assert!(later > times[4], "the clock of this leader is behind");
    }

    #[test]
    fn the_number_of_nodes_rarely_changes() {
        assert_eq!([0, 1, 3, 1000, 10_000].map(|number| rounded_nodes(number, 0)), [1, 1, 4, 1024, 16384]);
        assert_eq!(rounded_nodes(1025, 1024), 2048);
        assert_eq!(rounded_nodes(1024, 2048), 2048);
        assert_eq!(rounded_nodes(512, 2048), 512);
    }
}
