//! Which memberships Ferroband may change.

use crate::{PKeyRange, RequestedPKey};
use ferroband_model::Guid;
use std::collections::BTreeSet;

/// The memberships that Ferroband may change in the subnet manager: those of its virtual functions, and those that it
/// added. What someone else added stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// P_Keys that Ferroband manages. Partitions with other P_Keys are never changed.
    pub keys: PKeyRange,
    /// GUIDs that virtual functions have now. All memberships of these GUIDs are owned.
    pub guids: BTreeSet<Guid>,
    /// Memberships that Ferroband added, or is about to add. They are owned until their removal is confirmed, whatever
    /// GUID the function has by then.
    pub placed: BTreeSet<(RequestedPKey, Guid)>,
}

impl Ownership {
    /// Whether Ferroband may add and remove this membership.
    pub fn owns(&self, key: RequestedPKey, guid: Guid) -> bool {
        self.keys.contains(key) && (self.guids.contains(&guid) || self.placed.contains(&(key, guid)))
    }
}
