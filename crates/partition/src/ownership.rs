//! Which memberships Ferroband may change.

use crate::{PKeyBase, PKeyRange};
use ferroband_model::Guid;
use std::collections::BTreeSet;

/// The GUIDs and partitions that Ferroband may change in the subnet manager.
///
/// Ferroband owns all memberships of a claimed GUID of its range. Of a hardware GUID, it owns only the memberships that
/// it added itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Managed P_Keys.
    pub keys: PKeyRange,
    /// GUIDs of Ferroband's range that virtual functions have claimed.
    pub guids: BTreeSet<Guid>,
    /// Memberships of hardware GUIDs that Ferroband added.
    pub placed: BTreeSet<(PKeyBase, Guid)>,
}

impl Ownership {
    /// Whether this member may be removed from this partition.
    pub fn may_remove(&self, key: PKeyBase, guid: Guid) -> bool {
        self.keys.contains(key) && (self.guids.contains(&guid) || self.placed.contains(&(key, guid)))
    }

    /// Whether members may be added to this partition.
    pub fn may_add(&self, key: PKeyBase) -> bool {
        self.keys.contains(key)
    }
}
