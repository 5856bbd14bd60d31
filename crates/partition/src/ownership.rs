//! What is ours to change.

use crate::{PKeyBase, PKeyRange};
use ferroband_model::Guid;
use std::collections::BTreeSet;

/// The GUIDs and partitions that we may touch at the subnet manager.
///
/// A GUID of the pool is ours when it is claimed: then it belongs in the partitions that we say and in no other. A
/// port's own GUID, which the maker gave it, is ours only in the partitions that we put it into ourselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The partitions.
    pub keys: PKeyRange,
    /// Claimed GUIDs of the pool.
    pub guids: BTreeSet<Guid>,
    /// Ports that we put into partitions.
    pub placed: BTreeSet<(PKeyBase, Guid)>,
}

impl Ownership {
    /// Whether we may take this member out of this partition.
    pub fn may_remove(&self, key: PKeyBase, guid: Guid) -> bool {
        self.keys.contains(key) && (self.guids.contains(&guid) || self.placed.contains(&(key, guid)))
    }

    /// Whether we may put members into this partition.
    pub fn may_add(&self, key: PKeyBase) -> bool {
        self.keys.contains(key)
    }
}
