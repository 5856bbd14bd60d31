//! Computes the status of a NodePartitions object. Does no I/O.

use super::desired::{DesiredMemberships, MAX_NODE_PKEYS};
use super::records::format_member;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsStatus, WaitingMember};
use ferroband_daemon::condition;
use ferroband_partition::{MembershipState, PartitionReconciler};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Computes which members of the node are not programmed yet and why, the entries of `status.placed`, and the
/// conditions. `current` is the status that the node has. `managed` is false if no subnet manager is configured.
/// `confirms_starts` says whether the leader knows that no restore of etcd is under way.
pub fn compute(
    object: &NodePartitions,
    current: Option<&NodePartitionsStatus>,
    desired: &DesiredMemberships,
    reconciler: &PartitionReconciler,
    (managed, confirms_starts): (bool, bool),
) -> NodePartitionsStatus {
    let node = object.name_any();
    let before = current.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = NodePartitionsStatus {
        observed_generation: object.metadata.generation.unwrap_or_default(),
        unmanaged: !managed,
        ..NodePartitionsStatus::default()
    };
    let start = object.spec.addresses.as_ref().map(|report| report.start.clone()).filter(|_| confirms_starts);
    let confirmed = current.map(|status| status.confirmed_start.clone());
    status.confirmed_start = start.or(confirmed).unwrap_or_default();
    for name in object.spec.members.keys() {
        let at = (node.clone(), name.clone());
        if let Some(reason) = desired.rejected.get(&at) {
            let waiting = WaitingMember { refused: true, attempts: 0, message: reason.clone() };
            status.waiting.insert(name.clone(), waiting);
            continue;
        }
        let Some((key, guid)) = desired.accepted.get(&at) else { continue };
        status.accepted.insert(name.clone(), format_member(&(*key, *guid)));
        if managed {
            let (attempts, message) = match reconciler.membership_state(*key, *guid) {
                MembershipState::Programmed => continue,
                MembershipState::Pending => (0, String::new()),
                MembershipState::Failing { attempts, error } => {
                    (i32::try_from(attempts).unwrap_or(i32::MAX), error)
                }
            };
            status.waiting.insert(name.clone(), WaitingMember { refused: false, attempts, message });
        }
    }
    status.pending = i32::try_from(status.waiting.len()).unwrap_or(i32::MAX);
    status.problem =
        status.waiting.values().map(|waiting| waiting.message.clone()).find(|message| !message.is_empty());
    let placed = desired.placed.get(&node).into_iter().flatten();
    // Remove a membership from `status.placed` once it is neither desired nor in the subnet manager.
    let is_needed = |key, guid| desired.table.get(key, guid).is_some() || !reconciler.is_removed(key, guid);
    status.placed = placed.filter(|(key, guid)| is_needed(*key, *guid)).map(format_member).collect();
    let shared = desired.shared_port_keys.get(&node);
    status.conditions.push(match shared {
        None => condition(before, "PortsNotShared", Some(true), "OwnPorts", "no port has P_Keys of several tenants".to_owned()),
        Some(keys) => {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let message = format!(
                "pods of several namespaces share a port that is in partitions {}, so each of these pods can use all of these P_Keys; give each tenant its own virtual functions",
                keys.join(", ")
            );
            condition(before, "PortsNotShared", Some(false), "SharedPort", message)
        }
    });
    let keys = desired.key_counts.get(&node).copied().unwrap_or_default();
    let room = keys < MAX_NODE_PKEYS;
    let reason = if room { "Room" } else { "Full" };
    // The message does not contain the current count, because every new pod would then cause a write of the
    // status.
    let message = format!("the node's driver supports at most {MAX_NODE_PKEYS} P_Keys");
    status.conditions.push(condition(before, "PKeysAvailable", Some(room), reason, message));
    status
}

/// Whether `after` differs from `before` only in memberships that are being programmed. The node is told the result
/// when all of them are programmed or one fails, not each step.
pub fn is_intermediate(before: &NodePartitionsStatus, after: &NodePartitionsStatus) -> bool {
    let is_in_progress =
        |waiting: &WaitingMember| !waiting.refused && waiting.attempts == 0 && waiting.message.is_empty();
    let has_failed = |waiting: &WaitingMember| !waiting.refused && !is_in_progress(waiting);
    let others = |status: &NodePartitionsStatus| NodePartitionsStatus {
        waiting: BTreeMap::new(),
        pending: 0,
        problem: None,
        placed: Vec::new(),
        ..status.clone()
    };
    after.waiting.values().any(is_in_progress)
        && !after.waiting.values().any(has_failed)
        && others(before) == others(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::ferroband::NodeAddressReport;

    fn status(waiting: &[(&str, bool, i32)]) -> NodePartitionsStatus {
        let waiting = waiting.iter().map(|(name, refused, attempts)| {
            let message = if *refused || *attempts > 0 { "x" } else { "" };
            let member =
                WaitingMember { refused: *refused, attempts: *attempts, message: message.to_owned() };
            ((*name).to_owned(), member)
        });
        NodePartitionsStatus { waiting: waiting.collect(), ..NodePartitionsStatus::default() }
    }

    #[test]
    fn a_node_is_told_the_result_and_not_each_step() {
        let start = status(&[("a", false, 0), ("b", false, 0)]);
        assert!(is_intermediate(&start, &status(&[("b", false, 0)])));
        assert!(!is_intermediate(&start, &status(&[])), "all are programmed");
        assert!(!is_intermediate(&start, &status(&[("a", false, 1), ("b", false, 0)])), "one fails");
        let mut accepted = status(&[("a", false, 0)]);
        accepted.accepted.insert("a".into(), "0x0005 x".into());
        assert!(!is_intermediate(&start, &accepted), "the pod waits for it");
        let refused = status(&[("a", false, 0), ("b", true, 0)]);
        assert!(is_intermediate(&refused, &status(&[("a", false, 0), ("b", true, 0), ("c", false, 0)])));
    }

    #[test]
    fn a_start_is_confirmed_only_when_no_restore_is_under_way() {
        let mut object = NodePartitions::default();
        object.spec.addresses =
            Some(NodeAddressReport { start: "s1".into(), ..NodeAddressReport::default() });
        let (desired, reconciler) = (DesiredMemberships::default(), PartitionReconciler::default());
        let compute = |object: &NodePartitions, confirms| {
            super::compute(object, object.status.as_ref(), &desired, &reconciler, (false, confirms))
                .confirmed_start
        };
        assert_eq!(compute(&object, false), "");
        assert_eq!(compute(&object, true), "s1");
        object.status = Some(NodePartitionsStatus { confirmed_start: "s0".into(), ..Default::default() });
        assert_eq!(compute(&object, false), "s0", "an earlier confirmation stays");
    }
}
