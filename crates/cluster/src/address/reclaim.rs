//! What may be taken back, as far as that is a function of what is known.

use super::{node_fencing::NodeFencing, statefulset::split_pod_name};
use ferroband_address::{AddressAllocation, IpBlock};

/// What the API server says, asked in doubt too: a cache may be behind.
pub trait ReclaimEvidence {
    /// What becomes of a node; `None` if there is none of that name.
    fn node(&self, name: &str) -> Option<NodeFencing>;
    /// Whether a StatefulSet has the pod.
    fn expects_pod(&self, namespace: &str, set: &str, ordinal: i64) -> bool;
}

/// What is taken back of one granule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReclaimOutcome {
    /// The granule as it should be, if it should change.
    pub updated_block: Option<IpBlock>,
    /// The addresses that are free, or wait for their pod, from then on.
    pub released: Vec<(u8, AddressAllocation, ReclaimReason)>,
}

/// Why an address is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimReason {
    /// The node is fenced.
    NodeOutOfService,
    /// The node does not exist.
    NodeDeleted,
    /// The StatefulSet has no such pod any more.
    PodNotExpected,
}

impl ReclaimReason {
    /// As the end of a sentence.
    pub fn describe(self, entry: &AddressAllocation) -> String {
        match self {
            Self::NodeOutOfService => format!("node {} is out of service", entry.node),
            Self::NodeDeleted => format!("node {} is deleted", entry.node),
            Self::PodNotExpected => format!("no StatefulSet has a pod {} any more", entry.pod),
        }
    }
}

/// What can be taken back of `granule`.
pub fn reclaim_block(granule: &IpBlock, witness: &impl ReclaimEvidence) -> ReclaimOutcome {
    let mut left = granule.clone();
    let mut freed = Vec::new();
    let lost = |node: &str| match witness.node(node) {
        None => Some(ReclaimReason::NodeDeleted),
        Some(NodeFencing::OutOfService) => Some(ReclaimReason::NodeOutOfService),
        Some(NodeFencing::NotFenced) => None,
    };
    for (offset, entry) in &granule.entries {
        let awaited = || {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            split_pod_name(pod).is_some_and(|(set, ordinal)| witness.expects_pod(namespace, set, ordinal))
        };
        let why = if entry.is_reserved() {
            (!awaited()).then_some(ReclaimReason::PodNotExpected)
        } else {
            lost(&entry.node)
        };
        let Some(why) = why else { continue };
        if entry.sticky && !entry.is_reserved() && awaited() {
            // The sandbox is gone with its node; the address waits for the next pod of that name.
            left.entries.insert(*offset, AddressAllocation { container: String::new(), ..entry.clone() });
        } else {
            left.entries.remove(offset);
        }
        freed.push((*offset, entry.clone(), why));
    }
    if left.node.as_deref().is_some_and(|node| lost(node).is_some()) {
        left.node = None;
    }
    ReclaimOutcome { updated_block: Some(left).filter(|left| left != granule), released: freed }
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

    fn granule(holder: &str, entries: &[(u8, &str, &str, bool, &str)]) -> IpBlock {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut granule = IpBlock::new(id, Some(holder.to_owned()));
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
            granule.entries.insert(*offset, entry);
        }
        granule
    }

    #[test]
    fn g01_addresses_of_a_node_that_is_not_fenced_stay() {
        let kept =
            granule("unreachable", &[(1, "ns/a", "up", false, "c"), (2, "ns/b", "unreachable", false, "c")]);
        assert_eq!(reclaim_block(&kept, &FakeEvidence), ReclaimOutcome::default());
        let lost = granule(
            "off",
            &[(1, "ns/a", "off", false, "c"), (2, "ns/b", "gone", false, "c"), (3, "ns/c", "up", false, "c")],
        );
        let taken = reclaim_block(&lost, &FakeEvidence);
        let why: Vec<_> = taken.released.iter().map(|(offset, _, why)| (*offset, *why)).collect();
        assert_eq!(why, [(1, ReclaimReason::NodeOutOfService), (2, ReclaimReason::NodeDeleted)]);
        let left = taken.updated_block.unwrap();
        assert_eq!((left.entries.keys().copied().collect::<Vec<_>>(), left.node), (vec![3], None));
    }

    #[test]
    fn a24_what_waits_goes_when_its_set_has_no_such_pod_any_more() {
        let held = granule(
            "up",
            &[
                (1, "ns/db-1", "up", true, ""),
                (2, "ns/db-2", "up", true, ""),
                (3, "ns/db-2", "up", true, "c"),
                (4, "ns/db-0", "off", true, "c"),
                (5, "other/db-0", "up", true, ""),
            ],
        );
        let left = reclaim_block(&held, &FakeEvidence).updated_block.unwrap();
        assert_eq!(left.entries.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(left.entries[&4].is_reserved(), "its node is off, and its pod will come");
        assert!(!left.entries[&3].is_reserved(), "a sandbox is never taken from a node that is up");
    }
}
