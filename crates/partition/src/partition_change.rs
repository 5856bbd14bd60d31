//! The difference between desired and observed memberships.

use crate::{Membership, MembershipTable, Ownership, RequestedPKey};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};

/// Members to add to and to remove from one partition in the subnet manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionChange {
    /// Members to add, and members that change between full and limited, with their new membership type.
    pub add: BTreeMap<Guid, Membership>,
    pub remove: BTreeSet<Guid>,
}

impl PartitionChange {
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Returns the changes from `observed` to `desired` that `ownership` permits. `uncertain` contains the
/// memberships whose last change had an unknown outcome. They are sent again.
pub fn diff(
    desired: &MembershipTable,
    observed: &MembershipTable,
    uncertain: &BTreeSet<(RequestedPKey, Guid)>,
    ownership: &Ownership,
) -> BTreeMap<RequestedPKey, PartitionChange> {
    let keys = desired.keys().chain(observed.keys()).chain(uncertain.iter().map(|(key, _)| *key));
    let keys: BTreeSet<RequestedPKey> = keys.collect();
    let changes = |key: RequestedPKey| {
        Some((key, diff_partition(key, desired, observed, uncertain, ownership)))
            .filter(|(_, c)| !c.is_empty())
    };
    keys.into_iter().filter_map(changes).collect()
}

/// Like [`diff`], for one partition.
pub(crate) fn diff_partition(
    key: RequestedPKey,
    desired: &MembershipTable,
    observed: &MembershipTable,
    uncertain: &BTreeSet<(RequestedPKey, Guid)>,
    ownership: &Ownership,
) -> PartitionChange {
    let mut change = PartitionChange::default();
    for (guid, membership) in desired.members(key).filter(|(guid, _)| ownership.owns(key, *guid)) {
        let present = observed.get(key, guid) == Some(membership) && !uncertain.contains(&(key, guid));
        if !present {
            change.add.insert(guid, membership);
        }
    }
    let uncertain = uncertain.range((key, Guid::new(0))..=(key, Guid::new(u64::MAX))).map(|(_, guid)| *guid);
    for guid in observed.members(key).map(|(guid, _)| guid).chain(uncertain) {
        if desired.get(key, guid).is_none() && ownership.owns(key, guid) {
            change.remove.insert(guid);
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u16) -> RequestedPKey {
        RequestedPKey::new(number).unwrap()
    }

    fn table() -> impl Strategy<Value = MembershipTable> {
        let member = (1_u16..6, 1_u64..12, any::<bool>());
        proptest::collection::vec(member, 0..30).prop_map(|members| {
            let kind = |limited| if limited { Membership::Limited } else { Membership::Full };
            members.into_iter().map(|(k, g, limited)| (key(k), Guid::new(g), kind(limited))).collect()
        })
    }

    proptest! {
        /// Applying the diff must make the owned memberships equal to the desired ones and change no others.
        #[test]
        fn diff_converges_and_changes_only_owned_memberships(
            desired in table(), observed in table(),
            guids in proptest::collection::btree_set(1_u64..12, 0..12),
            last in 1_u16..6,
        ) {
            let ownership = Ownership {
                keys: keys_up_to(last),
                guids: guids.into_iter().map(Guid::new).collect(),
                placed: BTreeSet::new(),
            };
            let mut after = observed.clone();
            for (key, change) in diff(&desired, &observed, &BTreeSet::new(), &ownership) {
                prop_assert!(ownership.keys.contains(key) && !change.is_empty());
                for (guid, membership) in change.add {
                    prop_assert!(ownership.guids.contains(&guid));
                    after.set(key, guid, membership);
                }
                for guid in change.remove {
                    prop_assert!(ownership.guids.contains(&guid));
                    after.remove(key, guid);
                }
            }
            for (key, guid, _) in desired.iter().chain(observed.iter()).chain(after.iter()) {
                let expected = if ownership.owns(key, guid) { &desired } else { &observed };
                prop_assert_eq!(after.get(key, guid), expected.get(key, guid));
            }
            prop_assert!(diff(&desired, &after, &BTreeSet::new(), &ownership).is_empty());
        }
    }

    fn keys_up_to(last: u16) -> crate::PKeyRange {
        crate::PKeyRange { first: RequestedPKey::FIRST, last: key(last) }
    }

    #[test]
    fn uncertain_memberships_are_sent_again() {
        let (k, stays, goes) = (key(5), Guid::new(1), Guid::new(2));
        let desired = MembershipTable::from_iter([(k, stays, Membership::Full)]);
        let uncertain = BTreeSet::from([(k, stays), (k, goes)]);
        let ownership = Ownership { guids: BTreeSet::from([stays, goes]), ..Ownership::default() };
        let changes = diff(&desired, &desired, &uncertain, &ownership);
        assert_eq!(changes[&k].add.keys().copied().collect::<Vec<_>>(), [stays]);
        assert_eq!(changes[&k].remove, BTreeSet::from([goes]));
    }
}
