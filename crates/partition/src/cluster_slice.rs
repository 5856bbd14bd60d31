//! A cluster's part of the range.

use crate::GuidRange;
use ferroband_model::Guid;

/// The least that a share has: 2^32 GUIDs.
const SLICE_BITS: u32 = 32;
/// The most bits of a cluster's id that go into its GUIDs.
const CLUSTER_ID_BITS: u32 = 24;

/// The GUIDs that this cluster hands out.
///
/// Two clusters on one fabric with the same range, which is what nobody changes, must not give out the same
/// GUIDs, and neither knows of the other. So where the range is large enough, the cluster's id is part of its GUIDs;
/// where it is not, at least they begin at different places, and the subnet manager's list tells of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSlice {
    /// All of it.
    pub range: GuidRange,
    /// What is handed out.
    pub slice: GuidRange,
    start: u64,
}

impl ClusterSlice {
    /// The share of the cluster with this id (the UID of its namespace kube-system).
    pub fn new(range: GuidRange, cluster: &str) -> Self {
        let hash = hash(cluster);
        let bits = range.size().ilog2();
        if bits < SLICE_BITS + 8 {
            return Self { range, slice: range, start: hash % range.size() };
        }
        let id_bits = CLUSTER_ID_BITS.min(bits - SLICE_BITS);
        let id = hash >> (64 - id_bits);
        let first = range.first.value() + (id << SLICE_BITS);
        let last = first + ((1 << SLICE_BITS) - 1);
        let own = GuidRange { first: Guid::new(first), last: Guid::new(last) };
        Self { range, slice: own, start: 0 }
    }

    /// Where somebody begins to look for a free place, as a distance from the first GUID: the cluster's own start, and
    /// each node elsewhere, so that nodes do not want the same place.
    pub fn search_start(&self, node: &str) -> u64 {
        (self.start.wrapping_add(hash(node) % self.slice.size())) % self.slice.size()
    }
}

/// FNV-1a, finished with a mix so that the high bits are as good as the low ones. The same in every release.
fn hash(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clusters_with_the_default_range_have_different_guids() {
        let first = ClusterSlice::new(GuidRange::DEFAULT, "11111111-1111-1111-1111-111111111111");
        let second = ClusterSlice::new(GuidRange::DEFAULT, "22222222-2222-2222-2222-222222222222");
        assert_ne!(first.slice, second.slice);
        assert_eq!(first.slice.size(), 1 << 32);
        assert_eq!(first, ClusterSlice::new(GuidRange::DEFAULT, "11111111-1111-1111-1111-111111111111"));
    }

    proptest! {
        #[test]
        fn a_share_lies_in_its_range(first in 1..u64::MAX - 1, size in 0..u64::MAX, cluster in ".*", node in ".*") {
            let last = first.saturating_add(size).min(u64::MAX - 1);
            let range = GuidRange::new(Guid::new(first), Guid::new(last)).unwrap();
            let share = ClusterSlice::new(range, &cluster);
            prop_assert!(range.contains(share.slice.first) && range.contains(share.slice.last));
            prop_assert!(share.slice.first <= share.slice.last);
            prop_assert!(share.search_start(&node) < share.slice.size());
        }
    }
}
