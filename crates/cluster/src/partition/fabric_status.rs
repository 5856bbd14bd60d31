//! Computes the status of the Fabric object. Does no I/O.

use ferroband_api::ferroband::FabricStatus;
use ferroband_daemon::condition;
use ferroband_partition::{GuidRange, PartitionReconciler, SubnetManagerHealth};

const MAX_LISTED_ORPHANS: usize = 20;

/// Computes the member counts, orphaned members and conditions. `before` is the previous status, from which
/// transition times are kept.
pub fn compute(
    before: Option<&FabricStatus>,
    manager: &str,
    settings: Result<(), &str>,
    health: &SubnetManagerHealth,
    reconciler: &mut PartitionReconciler,
    range: GuidRange,
    vfs_in_use: bool,
) -> FabricStatus {
    let old = before.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let mut status = FabricStatus {
        manager: manager.to_owned(),
        desired: count(reconciler.desired().len()),
        pending: count(
            reconciler.pending_changes().values().map(|change| change.add.len() + change.remove.len()).sum(),
        ),
        reported: count(reconciler.observed().map_or(0, ferroband_partition::MembershipTable::len)),
        ..FabricStatus::default()
    };
    let orphans: Vec<String> =
        reconciler.foreign_members(range).map(|(key, guid)| format!("{key} {guid}")).collect();
    let reachable = match (settings, &health.problem) {
        (Err(problem), _) => condition(old, "Reachable", Some(false), "InvalidConfig", problem.to_owned()),
        (_, Some(problem)) if health.unauthorized => {
            condition(old, "Reachable", Some(false), "Unauthorized", problem.clone())
        }
        (_, Some(problem)) => condition(old, "Reachable", Some(false), "Unreachable", problem.clone()),
        (_, None) if health.fabric.is_none() => condition(
            old,
            "Reachable",
            None,
            "NotAnsweredYet",
            "the subnet manager has not answered yet".to_owned(),
        ),
        _ => condition(old, "Reachable", Some(true), "Answers", "the subnet manager answers".to_owned()),
    };
    status.conditions.push(reachable);
    if let Some(fabric) = &health.fabric {
        let open = fabric.open.map(|open| !open);
        let (reason, message) = match fabric.open {
            Some(true) => (
                "OpenDefaultPartition",
                "every port is a full member of the default partition 0x7fff, so partitions isolate nothing; make the default membership limited (UFM: default_membership = limited in gv.cfg; opensm: FERROBAND_DEFAULT_MEMBERSHIP: limited in the ConfigMap ib-kubernetes-config)",
            ),
            Some(false) => {
                ("LimitedByDefault", "the ports of pods are limited members of the default partition")
            }
            None => ("NotReported", "the subnet manager does not report membership of the default partition"),
        };
        status.conditions.push(condition(old, "Isolated", open, reason, message.to_owned()));
        let (reason, message) = match fabric.virtualization {
            Some(false) if vfs_in_use => (
                "NotVirtualized",
                "this opensm does not configure virtual functions (no virt_enabled): their ports stay down; use NVIDIA's opensm, UFM, or a managed switch",
            ),
            Some(false) => {
                ("NotVirtualized", "this opensm does not configure virtual functions; none is in use")
            }
            Some(true) => ("Virtualized", "the subnet manager configures virtual functions"),
            None => ("NotReported", "the subnet manager does not report support for virtual functions"),
        };
        let virtualized = fabric.virtualization.map(|able| able || !vfs_in_use);
        status.conditions.push(condition(old, "Virtualized", virtualized, reason, message.to_owned()));
        let secured = fabric.default_secrets.is_empty();
        let (reason, message) = match secured {
            true => ("Secured", "no management key is known to have its default value".to_owned()),
            false => ("DefaultKeys", fabric.default_secrets.join(", ")),
        };
        status.conditions.push(condition(old, "Secured", Some(secured), reason, message));
        if !fabric.outdated_hosts.is_empty() {
            let message = format!(
                "partition changes are made without these opensm hosts, which get them when they are back: {}; check the node daemon on these nodes, or remove their label node-restriction.kubernetes.io/ferroband-subnet-manager",
                fabric.outdated_hosts.join("; ")
            );
            status.conditions.push(condition(old, "HostsUpdated", Some(false), "HostOutdated", message));
        }
        let remarks = fabric.warnings.join("; ");
        if !remarks.is_empty() {
            status.conditions.push(condition(old, "NoWarnings", Some(false), "Warnings", remarks));
        }
    }
    if !orphans.is_empty() {
        let message = format!(
            "{} GUIDs of this cluster's range are partition members but not in use in this cluster; Ferroband does not remove them; see .status.orphans, and remove them from the subnet manager unless another cluster uses the same range",
            orphans.len()
        );
        status.conditions.push(condition(old, "NoForeignMembers", Some(false), "ForeignGuids", message));
    }
    status.orphans = orphans.into_iter().take(MAX_LISTED_ORPHANS).collect();
    status
}
