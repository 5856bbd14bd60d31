//! Decides which addresses of an AddressBlock are leaked. Does no I/O.

use super::statefulset::{StatefulSetOrdinals, split_pod_name};
use crate::node_liveness::NodeLoss;
use ferroband_address::{AddressAllocation, IpBlock};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lost nodes, and the StatefulSets that are lost according to the cache, each with its state in the API server. `None`
/// means that the object does not exist.
#[derive(Default)]
pub struct ConfirmedState {
    pub lost_nodes: BTreeMap<String, NodeLoss>,
    /// When another node may count as lost.
    pub recheck: Option<Duration>,
    pub stateful_sets: BTreeMap<(String, String), Option<StatefulSetOrdinals>>,
    /// Pods that exist although their StatefulSet does not have them, as `<namespace>/<name>`: the set was deleted
    /// without its pods, or a pod is still terminating.
    pub remaining_pods: BTreeSet<String>,
}

impl ConfirmedState {
    /// Whether a StatefulSet has a pod with this ordinal, or a pod of that name still exists.
    pub fn expects_pod(&self, namespace: &str, set: &str, ordinal: i64) -> bool {
        let known = self.stateful_sets.get(&(namespace.to_owned(), set.to_owned()));
        known.is_none_or(|set| set.is_some_and(|ordinals| ordinals.contains(ordinal)))
            || self.remaining_pods.contains(&format!("{namespace}/{set}-{ordinal}"))
    }
}

/// Result of checking one AddressBlock for leaked addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReclaimOutcome {
    /// The AddressBlock to write, in which leaked addresses are removed or reserved. If the node that owned
    /// the block is lost, the block has no owner any more. `None` if nothing changes.
    pub updated_block: Option<IpBlock>,
    /// Offset in the AddressBlock, previous entry and reason for each reclaimed address. The address is now
    /// free, or reserved for the next pod of a StatefulSet.
    pub released: Vec<(u8, AddressAllocation, ReclaimReason)>,
}

/// Why an address is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimReason {
    /// The node has the out-of-service taint.
    NodeOutOfService,
    /// The Node object does not exist.
    NodeDeleted,
    /// The address is reserved for a pod that its StatefulSet no longer has.
    PodNotExpected,
}

impl ReclaimReason {
    pub fn describe(self, entry: &AddressAllocation) -> String {
        match self {
            Self::NodeOutOfService => format!("node {} is out of service", entry.node),
            Self::NodeDeleted => format!("node {} is deleted", entry.node),
            Self::PodNotExpected => {
                format!("pod {} is gone, and its StatefulSet was deleted or scaled down", entry.pod)
            }
        }
    }
}

/// Finds the leaked addresses of an AddressBlock, and removes or reserves them in the returned copy.
pub fn reclaim_block(block: &IpBlock, evidence: &ConfirmedState) -> ReclaimOutcome {
    let mut updated = block.clone();
    let mut released = Vec::new();
    let loss_of = |node: &str| {
        evidence.lost_nodes.get(node).map(|loss| match loss {
            NodeLoss::Deleted => ReclaimReason::NodeDeleted,
            NodeLoss::OutOfService => ReclaimReason::NodeOutOfService,
        })
    };
    for (offset, entry) in &block.entries {
        let is_expected = || {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            split_pod_name(pod).is_some_and(|(set, ordinal)| evidence.expects_pod(namespace, set, ordinal))
        };
        let reason = if entry.is_reserved() {
            (!is_expected()).then_some(ReclaimReason::PodNotExpected)
        } else {
            loss_of(&entry.node)
        };
        let Some(reason) = reason else { continue };
        if entry.sticky && !entry.is_reserved() && is_expected() {
            // The node is lost, and the sandbox with it. Reserve the address for the next pod of the same name.
            updated.entries.insert(*offset, AddressAllocation { container: String::new(), ..entry.clone() });
        } else {
            updated.entries.remove(offset);
        }
        released.push((*offset, entry.clone(), reason));
    }
    if updated.node.as_deref().is_some_and(|node| loss_of(node).is_some()) {
        updated.node = None;
    }
    ReclaimOutcome { updated_block: Some(updated).filter(|updated| updated != block), released }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::{IpBlockId, IpSpace};

    /// Node `off` is out of service, node `gone` is deleted, and StatefulSet ns/db has two pods.
    fn evidence() -> ConfirmedState {
        let set = serde_json::json!({"metadata": {"name": "db"}, "spec": {"replicas": 2, "selector": {}, "template": {}}});
        let ordinals = StatefulSetOrdinals::from_set(&serde_json::from_value(set).unwrap());
        let set = |namespace: &str, ordinals| ((namespace.to_owned(), "db".to_owned()), ordinals);
        ConfirmedState {
            lost_nodes: [("off".to_owned(), NodeLoss::OutOfService), ("gone".to_owned(), NodeLoss::Deleted)]
                .into(),
            stateful_sets: [set("ns", Some(ordinals)), set("other", None)].into(),
            ..ConfirmedState::default()
        }
    }

    fn block(holder: &str, entries: &[(u8, &str, &str, bool, &str)]) -> IpBlock {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut block = IpBlock::new(id, Some(holder.to_owned()));
        for (offset, pod, node, sticky, container) in entries {
            let entry = AddressAllocation {
                pod: (*pod).into(),
                uid: "u".into(),
                sticky: *sticky,
                interface: "net1".into(),
                ordinal: 0,
                container: (*container).into(),
                node: (*node).into(),
                pool: String::new(),
            };
            block.entries.insert(*offset, entry);
        }
        block
    }

    // Case: ipam G01
    #[test]
    fn addresses_of_a_node_are_kept_until_it_is_fenced() {
        let not_fenced =
            block("unreachable", &[(1, "ns/a", "up", false, "c"), (2, "ns/b", "unreachable", false, "c")]);
        assert_eq!(reclaim_block(&not_fenced, &evidence()), ReclaimOutcome::default());
        let lost = block(
            "off",
            &[(1, "ns/a", "off", false, "c"), (2, "ns/b", "gone", false, "c"), (3, "ns/c", "up", false, "c")],
        );
        let outcome = reclaim_block(&lost, &evidence());
        let reasons: Vec<_> =
            outcome.released.iter().map(|(offset, _, reasons)| (*offset, *reasons)).collect();
        assert_eq!(reasons, [(1, ReclaimReason::NodeOutOfService), (2, ReclaimReason::NodeDeleted)]);
        let updated = outcome.updated_block.unwrap();
        assert_eq!((updated.entries.keys().copied().collect::<Vec<_>>(), updated.node), (vec![3], None));
    }

    // Case: ipam A24
    #[test]
    fn a_reserved_address_is_freed_when_its_statefulset_no_longer_has_the_pod() {
        let block_of_set = block(
            "up",
            &[
                (1, "ns/db-1", "up", true, ""),
                (2, "ns/db-2", "up", true, ""),
                (3, "ns/db-2", "up", true, "c"),
                (4, "ns/db-0", "off", true, "c"),
                (5, "other/db-0", "up", true, ""),
            ],
        );
        let updated = reclaim_block(&block_of_set, &evidence()).updated_block.unwrap();
        assert_eq!(updated.entries.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(updated.entries[&4].is_reserved(), "its node is off, and its pod is expected again");
        assert!(!updated.entries[&3].is_reserved(), "an address in use on a running node is never reclaimed");
    }
}
