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
    /// P_Keys that Ferroband manages. Partitions with other P_Keys are never changed.
    pub keys: PKeyRange,
    /// GUIDs of Ferroband's range that virtual functions have claimed.
    pub guids: BTreeSet<Guid>,
    /// Memberships of hardware GUIDs that Ferroband added.
    pub placed: BTreeSet<(PKeyBase, Guid)>,
}

impl Ownership {
    /// Whether Ferroband may remove the member: it manages the P_Key, and owns the GUID or added this
    /// membership.
    pub fn may_remove(&self, key: PKeyBase, guid: Guid) -> bool {
        self.keys.contains(key) && (self.guids.contains(&guid) || self.placed.contains(&(key, guid)))
    }

    /// Whether Ferroband manages the P_Key and may therefore add members to its partition.
    pub fn may_add(&self, key: PKeyBase) -> bool {
        self.keys.contains(key)
    }
}
