//! What the subnet manager should have. Pure.

use super::caches::PartitionNodeFacts;
use ferroband_api::ferroband::{NodeMember, NodePartitions, Partition, PartitionMode};
use ferroband_model::Guid;
use ferroband_partition::{Membership, MembershipTable, Ownership, PKeyBase, PKeyRange, parse_guid};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The P_Keys that one node can be in at once: the driver's limit (seed 003), whatever the ports' tables hold.
pub const MAX_NODE_PKEYS: usize = 128;

/// A member of a node's object, by node and key.
pub type MemberId = (String, String);

/// What follows from the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredMemberships {
    /// Who should be where.
    pub table: MembershipTable,
    /// What is ours.
    pub ownership: Ownership,
    /// The accepted members.
    pub accepted: BTreeMap<MemberId, (PKeyBase, Guid)>,
    /// Members that are not let in, and why.
    pub rejected: BTreeMap<MemberId, String>,
    /// Members that are let in although they should not be, by the partition's object.
    pub warnings: BTreeMap<MemberId, String>,
    /// By node: ports of adapters to be recorded as placed by us.
    pub placed: BTreeMap<String, BTreeSet<(PKeyBase, Guid)>>,
    /// By node: the partitions of a shared port that more than one namespace uses.
    pub shared_port_keys: BTreeMap<String, BTreeSet<PKeyBase>>,
    /// By node: how many partitions it is in.
    pub key_counts: BTreeMap<String, usize>,
    /// Nodes whose pods run nowhere any more; their memberships end.
    pub lost_nodes: BTreeSet<String>,
}

/// What it follows from.
pub struct PartitionInputs<'a> {
    /// The nodes' objects.
    pub node_partitions: &'a [Arc<NodePartitions>],
    /// The administrator's.
    pub partitions: &'a [Arc<Partition>],
    /// The nodes.
    pub nodes: &'a BTreeMap<String, PartitionNodeFacts>,
    /// The partitions that we may touch.
    pub managed_keys: PKeyRange,
    /// What the manager has already: who is in stays in when there is not room for all.
    pub observed: Option<&'a MembershipTable>,
}

/// Works it out.
pub fn desired_memberships(given: &PartitionInputs<'_>) -> DesiredMemberships {
    let mut wanted = DesiredMemberships {
        ownership: Ownership { keys: given.managed_keys, ..Ownership::default() },
        ..DesiredMemberships::default()
    };
    let rules = rules_by_key(given.partitions);
    let mut objects: Vec<_> = given.node_partitions.iter().collect();
    // The older object has the older claim.
    objects.sort_by_key(|object| (object.creation_timestamp(), object.name_any()));
    let mut owners: BTreeMap<Guid, String> = BTreeMap::new();
    for object in &objects {
        let node = object.name_any();
        for guid in object.spec.functions.values().filter_map(|text| parse_guid(text)) {
            owners.entry(guid).or_insert_with(|| node.clone());
            wanted.ownership.guids.insert(guid);
        }
        let placed: BTreeSet<_> = object
            .status
            .iter()
            .flat_map(|status| &status.placed)
            .filter_map(|text| parse_placement(text))
            .collect();
        wanted.ownership.placed.extend(&placed);
        wanted.placed.insert(node, placed);
    }
    for object in objects {
        let node = object.name_any();
        if given.nodes.get(&node).is_none_or(|facts| facts.out_of_service) {
            wanted.lost_nodes.insert(node);
            continue;
        }
        add_node(given, &rules, &owners, &node, &object.spec.members, &mut wanted);
    }
    wanted
}

fn add_node(
    given: &PartitionInputs<'_>,
    rules: &BTreeMap<PKeyBase, (&Partition, bool)>,
    owners: &BTreeMap<Guid, String>,
    node: &str,
    members: &BTreeMap<String, NodeMember>,
    wanted: &mut DesiredMemberships,
) {
    let mut read: Vec<(&String, &NodeMember, PKeyBase, Guid)> = Vec::new();
    for (name, member) in members {
        let at = (node.to_owned(), name.clone());
        match (member.pkey.parse::<PKeyBase>(), parse_guid(&member.guid)) {
            (Ok(key), Some(guid)) => read.push((name, member, key, guid)),
            (Err(error), _) => drop(wanted.rejected.insert(at, error.to_string())),
            (_, None) => drop(wanted.rejected.insert(at, format!("{:?} is no GUID", member.guid))),
        }
    }
    // Who is in already comes first, so that nobody is thrown out for a newcomer.
    read.sort_by_key(|(name, _, key, guid)| {
        let is_in = given.observed.is_some_and(|seen| seen.get(*key, *guid).is_some());
        (!is_in, (*name).clone())
    });
    let mut keys = BTreeSet::new();
    let mut tenants: BTreeMap<Guid, BTreeMap<PKeyBase, BTreeSet<&str>>> = BTreeMap::new();
    for (name, member, key, guid) in read {
        let at = (node.to_owned(), name.clone());
        let refusal = rejection_reason(given, rules, owners, node, member, key, guid);
        let full = !keys.contains(&key) && keys.len() >= MAX_NODE_PKEYS;
        let refusal = refusal.or_else(|| {
            full.then(|| {
                format!(
                    "the node is in {MAX_NODE_PKEYS} partitions already, which is the most its driver takes"
                )
            })
        });
        if let Some(reason) = refusal {
            wanted.rejected.insert(at, reason);
            continue;
        }
        if let Some(warning) = admission_warning(rules, member, key) {
            wanted.warnings.insert(at.clone(), warning);
        }
        keys.insert(key);
        let kind = if member.limited { Membership::Limited } else { Membership::Full };
        wanted.table.insert(key, guid, kind);
        wanted.accepted.insert(at, (key, guid));
        if member.shared {
            wanted.placed.entry(node.to_owned()).or_default().insert((key, guid));
            wanted.ownership.placed.insert((key, guid));
            tenants.entry(guid).or_default().entry(key).or_default().insert(&member.namespace);
        }
    }
    wanted.key_counts.insert(node.to_owned(), keys.len());
    for keys in tenants.values() {
        let namespaces: BTreeSet<_> = keys.values().flatten().collect();
        if keys.len() > 1 && namespaces.len() > 1 {
            wanted.shared_port_keys.entry(node.to_owned()).or_default().extend(keys.keys());
        }
    }
}

/// Why a member is not let in.
fn rejection_reason(
    given: &PartitionInputs<'_>,
    rules: &BTreeMap<PKeyBase, (&Partition, bool)>,
    owners: &BTreeMap<Guid, String>,
    node: &str,
    member: &NodeMember,
    key: PKeyBase,
    guid: Guid,
) -> Option<String> {
    if !given.managed_keys.contains(key) {
        return Some(format!(
            "partition {key} is not among those that Ferroband manages, {}",
            given.managed_keys
        ));
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
            if partition.spec.mode == PartitionMode::Enforce && !admits(partition, member) =>
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

fn admission_warning(
    rules: &BTreeMap<PKeyBase, (&Partition, bool)>,
    member: &NodeMember,
    key: PKeyBase,
) -> Option<String> {
    let (partition, _) = rules.get(&key)?;
    (!admits(partition, member)).then(|| {
        format!(
            "namespace {} uses partition {key} without being admitted by Partition {}",
            member.namespace,
            partition.name_any()
        )
    })
}

fn admits(partition: &Partition, member: &NodeMember) -> bool {
    partition.spec.namespaces.iter().any(|namespace| namespace == "*" || *namespace == member.namespace)
}

/// The administrator's objects by partition; `true` where several contradict each other and one of them enforces.
fn rules_by_key(partitions: &[Arc<Partition>]) -> BTreeMap<PKeyBase, (&Partition, bool)> {
    let mut rules: BTreeMap<PKeyBase, (&Partition, bool)> = BTreeMap::new();
    for partition in partitions {
        let Ok(key) = partition.spec.pkey.parse::<PKeyBase>() else { continue };
        let enforces = |one: &Partition| one.spec.mode == PartitionMode::Enforce;
        rules
            .entry(key)
            .and_modify(|(first, several)| *several = enforces(first) || enforces(partition))
            .or_insert((partition, false));
    }
    rules
}

/// `<pkey> <guid>`.
pub fn parse_placement(text: &str) -> Option<(PKeyBase, Guid)> {
    let (key, guid) = text.split_once(' ')?;
    Some((key.parse().ok()?, parse_guid(guid)?))
}

#[cfg(test)]
mod tests;
