//! What may be taken back, as far as that is a function of what is known.

use super::{fence::Fence, stateful::set_and_ordinal};
use ferroband_address::{Entry, Granule};

/// What the API server says, asked in doubt too: a cache may be behind.
pub trait Witness {
    /// What becomes of a node; `None` if there is none of that name.
    fn node(&self, name: &str) -> Option<Fence>;
    /// Whether a StatefulSet has the pod.
    fn awaited(&self, namespace: &str, set: &str, ordinal: i64) -> bool;
}

/// What is taken back of one granule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The granule as it should be, if it should change.
    pub left: Option<Granule>,
    /// The addresses that are free, or wait for their pod, from then on.
    pub freed: Vec<(u8, Entry, Why)>,
}

/// Why an address is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The node is fenced.
    Fenced,
    /// The node does not exist.
    NodeGone,
    /// The StatefulSet has no such pod any more.
    NotAwaited,
}

impl Why {
    /// As the end of a sentence.
    pub fn told(self, entry: &Entry) -> String {
        match self {
            Self::Fenced => format!("node {} is out of service", entry.node),
            Self::NodeGone => format!("node {} is deleted", entry.node),
            Self::NotAwaited => format!("no StatefulSet has a pod {} any more", entry.pod),
        }
    }
}

/// What can be taken back of `granule`.
pub fn take_back(granule: &Granule, witness: &impl Witness) -> Taken {
    let mut left = granule.clone();
    let mut freed = Vec::new();
    let lost = |node: &str| match witness.node(node) {
        None => Some(Why::NodeGone),
        Some(Fence::OutOfService) => Some(Why::Fenced),
        Some(Fence::Open) => None,
    };
    for (offset, entry) in &granule.entries {
        let awaited = || {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            set_and_ordinal(pod).is_some_and(|(set, ordinal)| witness.awaited(namespace, set, ordinal))
        };
        let why =
            if entry.is_waiting() { (!awaited()).then_some(Why::NotAwaited) } else { lost(&entry.node) };
        let Some(why) = why else { continue };
        if entry.sticky && !entry.is_waiting() && awaited() {
            // The sandbox is gone with its node; the address waits for the next pod of that name.
            left.entries.insert(*offset, Entry { container: String::new(), ..entry.clone() });
        } else {
            left.entries.remove(offset);
        }
        freed.push((*offset, entry.clone(), why));
    }
    if left.node.as_deref().is_some_and(|node| lost(node).is_some()) {
        left.node = None;
    }
    Taken { left: Some(left).filter(|left| left != granule), freed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::{GranuleId, Space};

    struct Known;

    impl Witness for Known {
        fn node(&self, name: &str) -> Option<Fence> {
            match name {
                "up" | "unreachable" => Some(Fence::Open),
                "off" => Some(Fence::OutOfService),
                _ => None,
            }
        }

        fn awaited(&self, namespace: &str, set: &str, ordinal: i64) -> bool {
            (namespace, set) == ("ns", "db") && ordinal < 2
        }
    }

    fn granule(holder: &str, entries: &[(u8, &str, &str, bool, &str)]) -> Granule {
        let (id, _) = GranuleId::containing(&Space::default_space(), [10, 0, 0, 0].into());
        let mut granule = Granule::new(id, Some(holder.to_owned()));
        for (offset, pod, node, sticky, container) in entries {
            let entry = Entry {
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
        assert_eq!(take_back(&kept, &Known), Taken::default());
        let lost = granule(
            "off",
            &[(1, "ns/a", "off", false, "c"), (2, "ns/b", "gone", false, "c"), (3, "ns/c", "up", false, "c")],
        );
        let taken = take_back(&lost, &Known);
        let why: Vec<_> = taken.freed.iter().map(|(offset, _, why)| (*offset, *why)).collect();
        assert_eq!(why, [(1, Why::Fenced), (2, Why::NodeGone)]);
        let left = taken.left.unwrap();
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
        let left = take_back(&held, &Known).left.unwrap();
        assert_eq!(left.entries.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        assert!(left.entries[&4].is_waiting(), "its node is off, and its pod will come");
        assert!(!left.entries[&3].is_waiting(), "a sandbox is never taken from a node that is up");
    }
}
