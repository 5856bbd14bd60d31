//! Decides which addresses of an AddressBlock are leaked. Does no I/O.

use super::statefulset::split_pod_name;
use crate::node_facts::NodeFencing;
use ferroband_address::{AddressAllocation, IpBlock};

/// State of nodes and StatefulSets. Where a cache may be outdated, the state was confirmed with the API
/// server.
pub trait ReclaimEvidence {
    /// Whether a node is fenced; `None` if it does not exist.
    fn node(&self, name: &str) -> Option<NodeFencing>;
    /// Whether a StatefulSet has a pod with this ordinal, or a pod of that name still exists.
    fn expects_pod(&self, namespace: &str, set: &str, ordinal: i64) -> bool;
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
pub fn reclaim_block(block: &IpBlock, evidence: &impl ReclaimEvidence) -> ReclaimOutcome {
    let mut updated = block.clone();
    let mut released = Vec::new();
    let loss_of = |node: &str| match evidence.node(node) {
        None => Some(ReclaimReason::NodeDeleted),
        Some(NodeFencing::OutOfService) => Some(ReclaimReason::NodeOutOfService),
        Some(NodeFencing::NotFenced) => None,
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

    struct FakeEvidence;

    impl ReclaimEvidence for FakeEvidence {
        fn node(&self, name: &str) -> Option<NodeFencing> {
            match name {
                "up" | "unreachable" => Some(NodeFencing::NotFenced),
                "off" => Some(NodeFencing::OutOfService),
                _ => None,
            }
        }

        fn expects_pod(&self, namespace: &str, set: &str, ordinal: i64) -> bool {
            (namespace, set) == ("ns", "db") && ordinal < 2
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
        assert_eq!(reclaim_block(&not_fenced, &FakeEvidence), ReclaimOutcome::default());
        let lost = block(
            "off",
            &[(1, "ns/a", "off", false, "c"), (2, "ns/b", "gone", false, "c"), (3, "ns/c", "up", false, "c")],
        );
        let outcome = reclaim_block(&lost, &FakeEvidence);
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
        let updated = reclaim_block(&block_of_set, &FakeEvidence).updated_block.unwrap();
        assert_eq!(updated.entries.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(updated.entries[&4].is_reserved(), "its node is off, and its pod is expected again");
        assert!(!updated.entries[&3].is_reserved(), "an address in use on a running node is never reclaimed");
    }
}
