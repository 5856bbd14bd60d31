//! Computes the status of a NodePartitions object. Does no I/O.

use super::desired::{DesiredMemberships, MAX_NODE_PKEYS};
use super::records::format_member;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsStatus, WaitingMember};
use ferroband_daemon::condition;
use ferroband_partition::{MembershipState, PartitionReconciler};
use kube::ResourceExt;

/// Computes which members of the node are not programmed yet and why, the entries of `status.placed`, and the
/// conditions. `managed` is false if no subnet manager is configured.
pub fn compute(
    object: &NodePartitions,
    desired: &DesiredMemberships,
    reconciler: &PartitionReconciler,
    managed: bool,
) -> NodePartitionsStatus {
    let node = object.name_any();
    let before = object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = NodePartitionsStatus {
        observed_generation: object.metadata.generation.unwrap_or_default(),
        unmanaged: !managed,
        ..NodePartitionsStatus::default()
    };
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
