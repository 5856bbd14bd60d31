//! Writes the AddressState: whether the imports are complete, and which ranges are blocked.

use super::caches::AddressCaches;
use crate::{ControllerContext, Error, object_writes::unless_outdated};
use ferroband_api::ferroband::{
    ADDRESS_STATE_NAME, AddressImports, AddressState, AddressStateSpec, AddressStateStatus,
    BlockedAddressRange, ImportPhase,
};
use ferroband_daemon::{api_call::with_timeout, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tracing::info;

/// Largest number of blocked ranges in the object, as in its schema.
const MAX_BLOCKED_RANGES: usize = 1000;
/// Number of causes that a condition names.
const MAX_NAMED: usize = 5;
const CONDITIONS: [&str; 3] = ["RecordsImported", "RecordsReadable", "NoConflictingRecords"];

/// State of the import of one system.
#[derive(Clone, Debug, Default)]
pub struct SystemReport {
    /// Why its records cannot be listed.
    pub problem: Option<String>,
    /// Number of records without an entry.
    pub missing: usize,
}

/// What one pass of the import found.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    pub whereabouts: SystemReport,
    pub spiderpool: SystemReport,
    pub blocked: Vec<BlockedAddressRange>,
    /// Whether entries are, or were recently, imported for nodes.
    pub importing: bool,
    /// Why records cannot be read.
    pub unreadable: Vec<String>,
    /// Records of addresses that another pod has.
    pub conflicts: Vec<String>,
}

pub struct AddressStateWriter {
    context: ControllerContext,
    caches: AddressCaches,
}

impl AddressStateWriter {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches }
    }

    /// Writes the status if it differs from the cached one. Other fields of the status are not changed.
    pub async fn write(&self, report: ImportReport) -> Result<(), Error> {
        let cached = self.caches.address_states.get("", ADDRESS_STATE_NAME);
        let before = cached.as_ref().and_then(|state| state.status.clone()).unwrap_or_default();
        let after = next_status(&before, report);
        if cached.is_some() && after == before {
            return Ok(());
        }
        if after.imports.are_complete() && !before.imports.are_complete() {
            info!("all foreign records are imported; nodes may assign addresses");
        }
        let api: Api<AddressState> = Api::all(self.context.client.clone());
        if cached.is_none() {
            let new = AddressState::new(ADDRESS_STATE_NAME, AddressStateSpec::default());
            let created = with_timeout(api.create(&PostParams::default(), &new)).await;
            unless_outdated(created, "create", "AddressState cluster")?;
        }
        let patch = json!({"status": {
            "imports": after.imports, "importing": after.importing, "blockedRanges": after.blocked_ranges, "conditions": after.conditions,
        }});
        let params = PatchParams::default();
        let patched =
            with_timeout(api.patch_status(ADDRESS_STATE_NAME, &params, &Patch::Merge(&patch))).await;
        unless_outdated(patched, "patch the status of", "AddressState cluster").map(drop)
    }
}

/// Returns the status after a pass. A complete import stays complete: a record that appears later loses to an entry.
fn next_status(before: &AddressStateStatus, report: ImportReport) -> AddressStateStatus {
    let phase = |before: ImportPhase, system: &SystemReport| match system {
        SystemReport { problem: None, missing: 0 } => ImportPhase::Complete,
        _ => before,
    };
    let imports = AddressImports {
        whereabouts: phase(before.imports.whereabouts, &report.whereabouts),
        spiderpool: phase(before.imports.spiderpool, &report.spiderpool),
    };
    let problems =
        [&report.whereabouts, &report.spiderpool].into_iter().filter_map(|one| one.problem.clone());
    let problems: Vec<String> = problems.collect();
    let missing = report.whereabouts.missing + report.spiderpool.missing;
    let imported = match (imports.are_complete(), problems.is_empty()) {
        (true, _) => (true, "Complete", "nodes may assign addresses".to_owned()),
        (false, false) => (false, "NotListed", problems.join("; ")),
        (false, true) => (false, "Importing", format!("{missing} records are not imported yet")),
    };
    let listed = |reason: &'static str, causes: Vec<String>, fine: &str| match causes.is_empty() {
        true => (true, "None", fine.to_owned()),
        false => (false, reason, name_some(causes)),
    };
    let readable = listed(
        "Unreadable",
        [problems, report.unreadable].concat(),
        "all records of Whereabouts and Spiderpool can be read",
    );
    let agreeing = listed("Conflict", report.conflicts, "no record contradicts an address block");
    let mut conditions: Vec<Condition> = before
        .conditions
        .iter()
        .filter(|other| !CONDITIONS.contains(&other.type_.as_str()))
        .cloned()
        .collect();
    for (kind, (status, reason, message)) in CONDITIONS.into_iter().zip([imported, readable, agreeing]) {
        conditions.push(condition(&before.conditions, kind, Some(status), reason, message));
    }
    let importing = report.importing;
    AddressStateStatus {
        imports,
        importing,
        blocked_ranges: limit_ranges(report.blocked),
        conditions,
        ..before.clone()
    }
}

/// Names some of the causes, in a stable order, so that a condition does not change with every pass.
fn name_some(mut causes: Vec<String>) -> String {
    causes.sort();
    causes.dedup();
    let more = causes.len().saturating_sub(MAX_NAMED);
    causes.truncate(MAX_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", causes.join("; "))
}

/// Sorts the ranges. If there are too many for one object, every address is blocked.
fn limit_ranges(mut blocked: Vec<BlockedAddressRange>) -> Vec<BlockedAddressRange> {
    blocked.sort();
    blocked.dedup_by(|a, b| (&a.space, &a.range) == (&b.space, &b.range));
    if blocked.len() <= MAX_BLOCKED_RANGES {
        return blocked;
    }
    let first = blocked.first().map(|one| one.reason.as_str()).unwrap_or_default();
    let reason = format!("{} ranges are blocked, among them: {first}", blocked.len());
    let reason: String = reason.chars().take(1000).collect();
    let whole = ["0.0.0.0-255.255.255.255", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"];
    whole
        .map(|range| BlockedAddressRange { space: None, range: range.to_owned(), reason: reason.clone() })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_complete_when_nothing_is_missing_and_stays_complete() {
        let pending = |whereabouts: SystemReport| ImportReport { whereabouts, ..ImportReport::default() };
        let missing = SystemReport { missing: 2, problem: None };
        let status = next_status(&AddressStateStatus::default(), pending(missing.clone()));
        assert_eq!(status.imports.whereabouts, ImportPhase::Pending);
        assert_eq!(status.imports.spiderpool, ImportPhase::Complete);
        assert_eq!(status.conditions[0].message, "2 records are not imported yet");
        let refused = SystemReport { missing: 0, problem: Some("IPPools cannot be listed: 403".into()) };
        let status = next_status(&status, pending(refused));
        assert!(!status.imports.are_complete() && status.conditions[0].reason == "NotListed");
        let status = next_status(&status, ImportReport::default());
        assert!(status.imports.are_complete());
        let later = next_status(&status, pending(missing));
        assert!(later.imports.are_complete(), "records that appear later do not stop the nodes");
        assert_eq!(
            next_status(&later, ImportReport::default()),
            status,
            "nothing changes, nothing is written"
        );
    }

    #[test]
    fn too_many_blocked_ranges_block_everything() {
        let range = |number: usize| BlockedAddressRange {
            space: None,
            range: format!("10.{}.{}.0-10.{}.{}.255", number / 256, number % 256, number / 256, number % 256),
            reason: "x".into(),
        };
        assert_eq!(limit_ranges((0..1000).chain(0..10).map(range).collect()).len(), 1000);
        let whole = limit_ranges((0..1001).map(range).collect());
        assert_eq!(whole.len(), 2);
        assert!(whole[0].range.starts_with("0.0.0.0-") && whole[0].reason.contains("1001 ranges"));
    }

    #[test]
    fn conflicts_are_named_and_other_conditions_kept() {
        let other = condition(&[], "Restored", Some(true), "x", String::new());
        let before = AddressStateStatus { conditions: vec![other], ..AddressStateStatus::default() };
        let conflicts = (0..7).map(|number| format!("record {number}")).collect();
        let status = next_status(&before, ImportReport { conflicts, ..ImportReport::default() });
        let message =
            &status.conditions.iter().find(|one| one.type_ == "NoConflictingRecords").unwrap().message;
        assert!(message.starts_with("record 0; ") && message.ends_with("and 2 more"), "{message}");
        assert_eq!((status.conditions.len(), status.conditions[0].type_.as_str()), (4, "Restored"));
    }
}
