//! The part of the configured GUID range from which one cluster assigns GUIDs.

use crate::GuidRange;
use ferroband_model::Guid;

/// Each cluster has a slice of 2^32 GUIDs, if the range is large enough.
const SLICE_BITS: u32 = 32;
/// Maximum number of cluster ID bits in a GUID.
const CLUSTER_ID_BITS: u32 = 24;

/// The GUIDs that this cluster assigns.
///
/// Two clusters on one fabric usually share the default range and do not know each other, but must not assign
/// the same GUIDs. If the range is large enough, the cluster ID becomes part of the GUID. Otherwise clusters
/// start at different offsets, and collisions are detected by comparing with the members that the subnet
/// manager lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSlice {
    /// The configured range, which several clusters may share.
    pub range: GuidRange,
    /// The part of `range` from which this cluster assigns GUIDs.
    pub guids: GuidRange,
    start: u64,
}

impl ClusterSlice {
    /// Returns the slice of the cluster with this ID (the UID of the namespace kube-system).
    pub fn new(range: GuidRange, cluster: &str) -> Self {
        let hash = hash(cluster);
        let bits = range.size().ilog2();
        if bits < SLICE_BITS + 8 {
            return Self { range, guids: range, start: hash % range.size() };
        }
        let id_bits = CLUSTER_ID_BITS.min(bits - SLICE_BITS);
        let id = hash >> (64 - id_bits);
        let first = range.first.value() + (id << SLICE_BITS);
        let last = first + ((1 << SLICE_BITS) - 1);
        let guids = GuidRange { first: Guid::new(first), last: Guid::new(last) };
        Self { range, guids, start: 0 }
    }

    /// Offset from the first GUID at which a node starts to search for a free GUID. It depends on the cluster
    /// and the node, so that nodes do not compete for the same blocks.
    pub fn search_start(&self, node: &str) -> u64 {
        (self.start.wrapping_add(hash(node) % self.guids.size())) % self.guids.size()
    }
}

/// FNV-1a with a final mix, so that the high bits are as well distributed as the low ones. The result must
/// never change, because the slice of a cluster depends on it.
fn hash(text: &str) -> u64 {
    let hash = ferroband_model::fnv1a(text.bytes());
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Case: partitions 36
    #[test]
    fn clusters_with_the_default_range_get_different_slices() {
        let first = ClusterSlice::new(GuidRange::DEFAULT, "11111111-1111-1111-1111-111111111111");
        let second = ClusterSlice::new(GuidRange::DEFAULT, "22222222-2222-2222-2222-222222222222");
        assert_ne!(first.guids, second.guids);
        assert_eq!(first.guids.size(), 1 << 32);
        assert_eq!(first, ClusterSlice::new(GuidRange::DEFAULT, "11111111-1111-1111-1111-111111111111"));
    }

    /// The numbers were computed outside of this program. A cluster whose slice moves would assign GUIDs of another
    /// cluster, and its blocks would be out of range.
    #[test]
    fn slice_of_a_cluster_never_changes() {
        assert_eq!(hash(""), 0xecba_3df2_c338_3c52);
        assert_eq!(hash("22222222-2222-2222-2222-222222222222"), 0xfd63_26cc_6659_e5a1);
        let cluster = "11111111-1111-1111-1111-111111111111";
        let range = |first, last| GuidRange { first: Guid::new(first), last: Guid::new(last) };
        let slice = ClusterSlice::new(GuidRange::DEFAULT, cluster);
        assert_eq!(slice.guids, range(0x0292_57e5_0000_0000, 0x0292_57e5_ffff_ffff));
        assert_eq!(slice.search_start("node-1"), 0xd2e0_cc71);
        // 2^40 GUIDs leave 8 bits for the cluster ID. One GUID less, and the cluster ID only moves the start.
        let slice = ClusterSlice::new(range(0x100_0000_0000, 0x1ff_ffff_ffff), cluster);
        assert_eq!(slice.guids, range(0x192_0000_0000, 0x192_ffff_ffff));
        let shared = range(0x100_0000_0000, 0x1ff_ffff_fffe);
        let slice = ClusterSlice::new(shared, cluster);
        assert_eq!((slice.guids, slice.search_start("node-1")), (shared, 0x97_0a9f_692e));
    }

    proptest! {
        #[test]
        fn slice_is_within_its_range(first in 1..u64::MAX - 1, size in 0..u64::MAX, cluster in ".*", node in ".*") {
            let last = first.saturating_add(size).min(u64::MAX - 1);
            let range = GuidRange::new(Guid::new(first), Guid::new(last)).unwrap();
            let slice = ClusterSlice::new(range, &cluster);
            prop_assert!(range.contains(slice.guids.first) && range.contains(slice.guids.last));
            prop_assert!(slice.guids.first <= slice.guids.last);
            prop_assert!(slice.search_start(&node) < slice.guids.size());
        }
    }
}
