//! What the subnet manager should have. Pure.

use super::seen::NodeFacts;
use ferroband_api::ferroband::{NodeMember, NodePartitions, Partition, PartitionMode};
use ferroband_model::Guid;
use ferroband_partition::{Key, KeyRange, Membership, Owned, Table, parse_guid};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The P_Keys that one node can be in at once: the driver's limit (seed 003), whatever the ports' tables hold.
pub const NODE_KEYS: usize = 128;

/// A member of a node's object, by node and key.
pub type MemberName = (String, String);

/// What follows from the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Who should be where.
    pub table: Table,
    /// What is ours.
    pub owned: Owned,
    /// The accepted members.
    pub accepted: BTreeMap<MemberName, (Key, Guid)>,
    /// Members that are not let in, and why.
    pub refused: BTreeMap<MemberName, String>,
    /// Members that are let in although they should not be, by the partition's object.
    pub warnings: BTreeMap<MemberName, String>,
    /// By node: ports of adapters to be recorded as placed by us.
    pub placed: BTreeMap<String, BTreeSet<(Key, Guid)>>,
    /// By node: the partitions of a shared port that more than one namespace uses.
    pub exposed: BTreeMap<String, BTreeSet<Key>>,
    /// By node: how many partitions it is in.
    pub keys: BTreeMap<String, usize>,
    /// Nodes whose pods run nowhere any more; their memberships end.
    pub lost: BTreeSet<String>,
}

/// What it follows from.
pub struct Given<'a> {
    /// The nodes' objects.
    pub memberships: &'a [Arc<NodePartitions>],
    /// The administrator's.
    pub partitions: &'a [Arc<Partition>],
    /// The nodes.
    pub nodes: &'a BTreeMap<String, NodeFacts>,
    /// The partitions that we may touch.
    pub keys: KeyRange,
    /// What the manager has already: who is in stays in when there is not room for all.
    pub seen: Option<&'a Table>,
}

/// Works it out.
pub fn wanted(given: &Given<'_>) -> Wanted {
    let mut wanted = Wanted { owned: Owned { keys: given.keys, ..Owned::default() }, ..Wanted::default() };
    let rules = rules(given.partitions);
    let mut objects: Vec<_> = given.memberships.iter().collect();
    // The older object has the older claim.
    objects.sort_by_key(|object| (object.creation_timestamp(), object.name_any()));
    let mut owners: BTreeMap<Guid, String> = BTreeMap::new();
    for object in &objects {
        let node = object.name_any();
        for guid in object.spec.functions.values().filter_map(|text| parse_guid(text)) {
            owners.entry(guid).or_insert_with(|| node.clone());
            wanted.owned.guids.insert(guid);
        }
        let placed: BTreeSet<_> =
            object.status.iter().flat_map(|status| &status.placed).filter_map(|text| place(text)).collect();
        wanted.owned.placed.extend(&placed);
        wanted.placed.insert(node, placed);
    }
    for object in objects {
        let node = object.name_any();
        if given.nodes.get(&node).is_none_or(|facts| facts.out) {
            wanted.lost.insert(node);
            continue;
        }
        one_node(given, &rules, &owners, &node, &object.spec.members, &mut wanted);
    }
    wanted
}

fn one_node(
    given: &Given<'_>,
    rules: &BTreeMap<Key, (&Partition, bool)>,
    owners: &BTreeMap<Guid, String>,
    node: &str,
    members: &BTreeMap<String, NodeMember>,
    wanted: &mut Wanted,
) {
    let mut read: Vec<(&String, &NodeMember, Key, Guid)> = Vec::new();
    for (name, member) in members {
        let at = (node.to_owned(), name.clone());
        match (member.pkey.parse::<Key>(), parse_guid(&member.guid)) {
            (Ok(key), Some(guid)) => read.push((name, member, key, guid)),
            (Err(error), _) => drop(wanted.refused.insert(at, error.to_string())),
            (_, None) => drop(wanted.refused.insert(at, format!("{:?} is no GUID", member.guid))),
        }
    }
    // Who is in already comes first, so that nobody is thrown out for a newcomer.
    read.sort_by_key(|(name, _, key, guid)| {
        let is_in = given.seen.is_some_and(|seen| seen.get(*key, *guid).is_some());
        (!is_in, (*name).clone())
    });
    let mut keys = BTreeSet::new();
    let mut tenants: BTreeMap<Guid, BTreeMap<Key, BTreeSet<&str>>> = BTreeMap::new();
    for (name, member, key, guid) in read {
        let at = (node.to_owned(), name.clone());
        let refusal = refusal(given, rules, owners, node, member, key, guid);
        let full = !keys.contains(&key) && keys.len() >= NODE_KEYS;
        let refusal = refusal.or_else(|| {
            full.then(|| {
                format!("the node is in {NODE_KEYS} partitions already, which is the most its driver takes")
            })
        });
        if let Some(reason) = refusal {
            wanted.refused.insert(at, reason);
            continue;
        }
        if let Some(warning) = warning(rules, member, key) {
            wanted.warnings.insert(at.clone(), warning);
        }
        keys.insert(key);
        let kind = if member.limited { Membership::Limited } else { Membership::Full };
        wanted.table.insert(key, guid, kind);
        wanted.accepted.insert(at, (key, guid));
        if member.shared {
            wanted.placed.entry(node.to_owned()).or_default().insert((key, guid));
            wanted.owned.placed.insert((key, guid));
            tenants.entry(guid).or_default().entry(key).or_default().insert(&member.namespace);
        }
    }
    wanted.keys.insert(node.to_owned(), keys.len());
    for keys in tenants.values() {
        let namespaces: BTreeSet<_> = keys.values().flatten().collect();
        if keys.len() > 1 && namespaces.len() > 1 {
            wanted.exposed.entry(node.to_owned()).or_default().extend(keys.keys());
        }
    }
}

/// Why a member is not let in.
fn refusal(
    given: &Given<'_>,
    rules: &BTreeMap<Key, (&Partition, bool)>,
    owners: &BTreeMap<Guid, String>,
    node: &str,
    member: &NodeMember,
    key: Key,
    guid: Guid,
) -> Option<String> {
    if !given.keys.contains(key) {
        return Some(format!("partition {key} is not among those that Ferroband manages, {}", given.keys));
    }
    if guid.is_unset() {
        return Some("the function has no GUID".to_owned());
    }
    match owners.get(&guid) {
        Some(owner) if owner != node => return Some(format!("GUID {guid} is node {owner}'s")),
        // Neither one of the node's functions nor a port of its adapters.
        None if !member.shared => return Some(format!("GUID {guid} is claimed by no function of the node")),
        _ => {}
    }
    match rules.get(&key) {
        Some((partition, false))
            if partition.spec.mode == PartitionMode::Enforce && !allows(partition, member) =>
        {
            Some(format!(
                "namespace {} may not use partition {key}: Partition {} admits {}",
                member.namespace,
                partition.name_any(),
                partition.spec.namespaces.join(", ")
            ))
        }
        Some((partition, true)) => Some(format!(
            "several Partition objects are about {key}, {} among them; remove all but one",
            partition.name_any()
        )),
        _ => None,
    }
}

fn warning(rules: &BTreeMap<Key, (&Partition, bool)>, member: &NodeMember, key: Key) -> Option<String> {
    let (partition, _) = rules.get(&key)?;
    (!allows(partition, member)).then(|| {
        format!(
            "namespace {} uses partition {key} without being admitted by Partition {}",
            member.namespace,
            partition.name_any()
        )
    })
}

fn allows(partition: &Partition, member: &NodeMember) -> bool {
    partition.spec.namespaces.iter().any(|namespace| namespace == "*" || *namespace == member.namespace)
}

/// The administrator's objects by partition; `true` where several contradict each other and one of them enforces.
fn rules(partitions: &[Arc<Partition>]) -> BTreeMap<Key, (&Partition, bool)> {
    let mut rules: BTreeMap<Key, (&Partition, bool)> = BTreeMap::new();
    for partition in partitions {
        let Ok(key) = partition.spec.pkey.parse::<Key>() else { continue };
        let enforces = |one: &Partition| one.spec.mode == PartitionMode::Enforce;
        rules
            .entry(key)
            .and_modify(|(first, several)| *several = enforces(first) || enforces(partition))
            .or_insert((partition, false));
    }
    rules
}

/// `<pkey> <guid>`.
pub fn place(text: &str) -> Option<(Key, Guid)> {
    let (key, guid) = text.split_once(' ')?;
    Some((key.parse().ok()?, parse_guid(guid)?))
}

#[cfg(test)]
mod tests;
