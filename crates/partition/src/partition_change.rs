//! What has to be sent.

use crate::{Membership, MembershipTable, Ownership, PKeyBase};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};

/// What one partition lacks and has too much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionChange {
    /// Members to put in, or to make another kind of member.
    pub add: BTreeMap<Guid, Membership>,
    /// Members to take out.
    pub remove: BTreeSet<Guid>,
}

impl PartitionChange {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// The way from what is seen to what is wanted, as far as it is ours to go. `unsure` are memberships whose last
/// change had no known outcome: they are sent again, one way or the other.
pub fn diff(
    wanted: &MembershipTable,
    seen: &MembershipTable,
    unsure: &BTreeSet<(PKeyBase, Guid)>,
    owned: &Ownership,
) -> BTreeMap<PKeyBase, PartitionChange> {
    let keys = wanted.keys().chain(seen.keys()).chain(unsure.iter().map(|(key, _)| *key));
    let keys: BTreeSet<PKeyBase> = keys.collect();
    let open = |key: PKeyBase| {
        Some((key, diff_partition(key, wanted, seen, unsure, owned))).filter(|(_, c)| !c.is_empty())
    };
    keys.into_iter().filter_map(open).collect()
}

/// The same for one partition.
pub(crate) fn diff_partition(
    key: PKeyBase,
    wanted: &MembershipTable,
    seen: &MembershipTable,
    unsure: &BTreeSet<(PKeyBase, Guid)>,
    owned: &Ownership,
) -> PartitionChange {
    let mut change = PartitionChange::default();
    for (guid, membership) in wanted.members(key).filter(|_| owned.may_add(key)) {
        let there = seen.get(key, guid) == Some(membership) && !unsure.contains(&(key, guid));
        if !there {
            change.add.insert(guid, membership);
        }
    }
    let unsure = unsure.range((key, Guid::new(0))..=(key, Guid::new(u64::MAX))).map(|(_, guid)| *guid);
    for guid in seen.members(key).map(|(guid, _)| guid).chain(unsure) {
        if wanted.get(key, guid).is_none() && owned.may_remove(key, guid) {
            change.remove.insert(guid);
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u16) -> PKeyBase {
        PKeyBase::new(number).unwrap()
    }

    fn table() -> impl Strategy<Value = MembershipTable> {
        let member = (1_u16..6, 1_u64..12, any::<bool>());
        proptest::collection::vec(member, 0..30).prop_map(|members| {
            let kind = |limited| if limited { Membership::Limited } else { Membership::Full };
            members.into_iter().map(|(k, g, limited)| (key(k), Guid::new(g), kind(limited))).collect()
        })
    }

    proptest! {
        /// Sent in full, the difference makes what is ours as wanted and leaves everything else.
        #[test]
        fn it_leads_to_what_is_wanted_and_touches_nothing_else(
            wanted in table(), seen in table(),
            guids in proptest::collection::btree_set(1_u64..12, 0..12),
            last in 1_u16..6,
        ) {
            let owned = Ownership {
                keys: KeyRangeTo::to(last),
                guids: guids.into_iter().map(Guid::new).collect(),
                placed: BTreeSet::new(),
            };
            let mut after = seen.clone();
            for (key, change) in diff(&wanted, &seen, &BTreeSet::new(), &owned) {
                prop_assert!(owned.keys.contains(key) && !change.is_empty());
                for (guid, membership) in change.add {
                    after.set(key, guid, membership);
                }
                for guid in change.remove {
                    prop_assert!(owned.guids.contains(&guid));
                    after.remove(key, guid);
                }
            }
            for (key, guid, membership) in wanted.iter().filter(|(key, ..)| owned.keys.contains(*key)) {
                prop_assert_eq!(after.get(key, guid), Some(membership));
            }
            for (key, guid, membership) in after.iter() {
                if owned.may_remove(key, guid) {
                    prop_assert_eq!(wanted.get(key, guid), Some(membership));
                } else if wanted.get(key, guid).is_none() || !owned.may_add(key) {
                    prop_assert_eq!(seen.get(key, guid), Some(membership));
                }
            }
            prop_assert!(diff(&wanted, &after, &BTreeSet::new(), &owned).is_empty());
        }
    }

    struct KeyRangeTo;
    impl KeyRangeTo {
        fn to(last: u16) -> crate::PKeyRange {
            crate::PKeyRange { first: PKeyBase::FIRST, last: key(last) }
        }
    }

    #[test]
    fn what_is_unsure_is_sent_again() {
        let (k, stays, goes) = (key(5), Guid::new(1), Guid::new(2));
        let wanted = MembershipTable::from_iter([(k, stays, Membership::Full)]);
        let unsure = BTreeSet::from([(k, stays), (k, goes)]);
        let owned = Ownership { guids: BTreeSet::from([stays, goes]), ..Ownership::default() };
        let changes = diff(&wanted, &wanted, &unsure, &owned);
        assert_eq!(changes[&k].add.keys().copied().collect::<Vec<_>>(), [stays]);
        assert_eq!(changes[&k].remove, BTreeSet::from([goes]));
    }
}
