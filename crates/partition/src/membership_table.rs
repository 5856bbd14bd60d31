//! A table of partition memberships.

use crate::{Membership, RequestedPKey};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};

/// Partitions and their members. A partition without members is not stored, as in subnet managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipTable {
    partitions: BTreeMap<RequestedPKey, BTreeMap<Guid, Membership>>,
    /// GUIDs of virtual functions, members or not. All other GUIDs are those of physical ports.
    functions: BTreeSet<Guid>,
    /// Membership of all physical ports in the default partition. Functions are always limited members there.
    default_membership: Membership,
}

impl MembershipTable {
    /// Adds a member. A GUID that is added as full and as limited member becomes a full member.
    pub fn insert(&mut self, key: RequestedPKey, guid: Guid, membership: Membership) {
        let member = self.partitions.entry(key).or_default().entry(guid).or_insert(membership);
        *member = (*member).min(membership);
    }

    /// Adds a member or replaces its membership.
    pub fn set(&mut self, key: RequestedPKey, guid: Guid, membership: Membership) {
        self.partitions.entry(key).or_default().insert(guid, membership);
    }

    /// Removes a member. The partition is removed with its last member.
    pub fn remove(&mut self, key: RequestedPKey, guid: Guid) {
        if let Some(members) = self.partitions.get_mut(&key) {
            members.remove(&guid);
            if members.is_empty() {
                self.partitions.remove(&key);
            }
        }
    }

    /// Records that the GUID is that of a virtual function. A subnet manager does not report this, so the functions of
    /// an observed table are unknown.
    pub fn add_function(&mut self, guid: Guid) {
        self.functions.insert(guid);
    }

    /// Sets the membership of all physical ports in the default partition. Only opensm uses it: UFM has its own setting.
    pub fn set_default_membership(&mut self, membership: Membership) {
        self.default_membership = membership;
    }

    /// Membership of all physical ports in the default partition; full unless it was set.
    pub fn default_membership(&self) -> Membership {
        self.default_membership
    }

    /// Whether the GUID is that of a virtual function. Only a function's P_Key may be at index 0 of its P_Key table:
    /// the host's interfaces (`ib0`) use index 0 of a physical port, which must stay the default partition.
    pub fn is_function(&self, guid: Guid) -> bool {
        self.functions.contains(&guid)
    }

    /// GUIDs of all virtual functions, in ascending order.
    pub fn functions(&self) -> &BTreeSet<Guid> {
        &self.functions
    }

    pub fn members(&self, key: RequestedPKey) -> impl Iterator<Item = (Guid, Membership)> {
        self.partitions.get(&key).into_iter().flatten().map(|(guid, membership)| (*guid, *membership))
    }

    /// Returns `None` if the GUID is not a member of the partition.
    pub fn get(&self, key: RequestedPKey, guid: Guid) -> Option<Membership> {
        self.partitions.get(&key)?.get(&guid).copied()
    }

    /// Returns the P_Keys of all partitions that have members, in ascending order.
    pub fn keys(&self) -> impl Iterator<Item = RequestedPKey> {
        self.partitions.keys().copied()
    }

    /// Returns all memberships, ordered by P_Key and GUID.
    pub fn iter(&self) -> impl Iterator<Item = (RequestedPKey, Guid, Membership)> {
        self.partitions
            .iter()
            .flat_map(|(key, members)| members.iter().map(|(guid, membership)| (*key, *guid, *membership)))
    }

    /// Whether both tables have the same memberships. Their functions may differ.
    pub fn has_same_members(&self, other: &Self) -> bool {
        self.partitions == other.partitions
    }

    /// Number of memberships in all partitions.
    pub fn len(&self) -> usize {
        self.partitions.values().map(BTreeMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Replaces the members of partition `key` with the members that it has in table `of`.
    pub fn copy_partition(&mut self, key: RequestedPKey, of: &Self) {
        match of.partitions.get(&key) {
            Some(members) => self.partitions.insert(key, members.clone()),
            None => self.partitions.remove(&key),
        };
    }
}

impl FromIterator<(RequestedPKey, Guid, Membership)> for MembershipTable {
    fn from_iter<I: IntoIterator<Item = (RequestedPKey, Guid, Membership)>>(members: I) -> Self {
        let mut table = Self::default();
        members.into_iter().for_each(|(key, guid, membership)| table.insert(key, guid, membership));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u16) -> RequestedPKey {
        RequestedPKey::new(number).unwrap()
    }

    #[test]
    fn members_of_all_partitions_are_counted() {
        let mut table = MembershipTable::default();
        assert_eq!((table.is_empty(), table.len()), (true, 0));
        for (number, guid) in [(5, 1), (5, 2), (6, 1)] {
            table.set(key(number), Guid::new(guid), Membership::Full);
        }
        assert!(!table.is_empty());
        assert_eq!((table.len(), table.iter().count(), table.keys().count()), (3, 3, 2));
        assert_eq!(table.members(key(5)).map(|(guid, _)| guid.value()).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn partition_is_removed_with_its_last_member() {
        let mut table = MembershipTable::from_iter([(key(5), Guid::new(1), Membership::Full)]);
        table.remove(key(5), Guid::new(2));
        assert_eq!(table.len(), 1);
        table.remove(key(5), Guid::new(1));
        assert_eq!(table, MembershipTable::default());
    }

    #[test]
    fn member_added_as_full_and_as_limited_is_full() {
        let (k, guid) = (key(5), Guid::new(1));
        for order in [[Membership::Full, Membership::Limited], [Membership::Limited, Membership::Full]] {
            let table = MembershipTable::from_iter(order.map(|membership| (k, guid, membership)));
            assert_eq!(table.get(k, guid), Some(Membership::Full), "{order:?}");
        }
    }
}
