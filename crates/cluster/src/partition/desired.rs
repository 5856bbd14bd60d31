//! Computes the desired partition members. Does no I/O.

use super::pkey_quota::PKeyQuota;
use super::records::{PartitionMember, PartitionRecords};
use super::rules::{PartitionAdmission, PartitionRules};
use crate::ClusterSettings;
use crate::node_liveness::NodeLoss;
use ferroband_api::ferroband::{NodeMember, NodePartitions, Partition};
use ferroband_model::Guid;
use ferroband_partition::{Membership, MembershipTable, Ownership, PKeyRange, RequestedPKey, parse_guid};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of P_Keys on one node. This is the driver's limit, which applies even if the ports' P_Key tables are
/// larger.
pub const MAX_NODE_PKEYS: usize = 128;

/// Identifies a member: name of the NodePartitions object (the node) and key in its `spec.members`.
pub type MemberId = (String, String);

/// The desired state of the subnet manager, and the results of validation for the status of the
/// NodePartitions and Partition objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredMemberships {
    /// P_Keys, GUIDs and membership types that the subnet manager should have.
    pub table: MembershipTable,
    /// Members that Ferroband may remove from the subnet manager, because it added them.
    pub ownership: Ownership,
    pub accepted: BTreeMap<MemberId, (RequestedPKey, Guid)>,
    /// Members that are not added to the subnet manager, because validation rejected them. The value is the
    /// reason.
    pub rejected: BTreeMap<MemberId, String>,
    /// Members whose namespace is not admitted by the Partition objects of their P_Key.
    pub not_admitted: BTreeMap<MemberId, NotAdmittedMember>,
    /// By node: memberships that Ferroband added or is about to add, for `status.placed`.
    pub placed: BTreeMap<String, BTreeSet<(RequestedPKey, Guid)>>,
    /// By node: partitions of ports that are in several partitions and are used by pods of several namespaces.
    pub shared_port_keys: BTreeMap<String, BTreeSet<RequestedPKey>>,
    /// By node: number of partitions that have accepted members on this node.
    pub key_counts: BTreeMap<String, usize>,
    /// Nodes that are deleted or out of service; their memberships are removed.
    pub lost_nodes: BTreeMap<String, NodeLoss>,
}

impl DesiredMemberships {
    /// Removes the new memberships of a node, which are not in `recorded`: their record could not be written. They are
    /// added in a later pass.
    pub fn withhold_unrecorded(&mut self, node: &str, recorded: Option<&BTreeSet<PartitionMember>>) {
        let is_new = |member: &PartitionMember| recorded.is_none_or(|recorded| !recorded.contains(member));
        let Some(placed) = self.placed.get_mut(node) else { return };
        for member in placed.extract_if(.., |member| is_new(member)) {
            self.ownership.placed.remove(&member);
            self.table.remove(member.0, member.1);
            self.accepted.retain(|(other, _), accepted| other != node || *accepted != member);
        }
    }
}

/// A member whose namespace may not use its partition.
#[derive(Clone, Debug, PartialEq)]
pub struct NotAdmittedMember {
    pub key: RequestedPKey,
    pub member: NodeMember,
    pub treatment: NotAdmittedTreatment,
    /// Why the member is not admitted.
    pub reason: String,
}

/// What happens to a member whose namespace is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotAdmittedTreatment {
    /// The Partition is not enforced: the member is accepted with a warning.
    Warned,
    /// The member was accepted before the Partition was enforced, and stays.
    Kept,
    /// The member is not in the partition.
    Refused,
}

/// Inputs of [`desired_memberships`].
pub struct PartitionInputs<'a> {
    /// One object for each node, which lists the members that the node requests.
    pub node_partitions: &'a [Arc<NodePartitions>],
    /// The administrator's rules: which namespaces may use a partition.
    pub partitions: &'a [Arc<Partition>],
    /// Nodes on which no pod runs any more.
    pub lost_nodes: &'a BTreeMap<String, NodeLoss>,
    /// P_Keys of the partitions that Ferroband may change.
    pub managed_keys: PKeyRange,
    /// Members that the subnet manager has, if known. They have precedence over new members if a node has more than
    /// `MAX_NODE_PKEYS` P_Keys.
    pub observed: Option<&'a MembershipTable>,
    /// Partitions whose members in the subnet manager are unknown although `observed` is known.
    pub unread: &'a BTreeSet<RequestedPKey>,
    /// What the leader recorded in earlier passes.
    pub records: &'a PartitionRecords,
    /// Whether a subnet manager is configured.
    pub managed: bool,
    pub settings: &'a ClusterSettings,
}

/// Validates the members that the nodes request, and computes the members that the subnet manager should
/// have.
pub fn desired_memberships(inputs: &PartitionInputs<'_>) -> DesiredMemberships {
    let mut desired = DesiredMemberships {
        ownership: Ownership { keys: inputs.managed_keys, ..Ownership::default() },
        ..DesiredMemberships::default()
    };
    let rules = PartitionRules::new(inputs.partitions, &inputs.settings.tenants);
    let mut quota = PKeyQuota::new(inputs, &rules);
    let mut objects: Vec<_> = inputs.node_partitions.iter().collect();
    // Oldest first: if two nodes claim the same GUID, the node with the older NodePartitions object owns it.
    objects.sort_by_key(|object| (object.creation_timestamp(), object.name_any()));
    let mut owners: BTreeMap<Guid, String> = BTreeMap::new();
    for object in &objects {
        let node = object.name_any();
        for guid in object.spec.functions.values().filter_map(|text| parse_guid(text)) {
            owners.entry(guid).or_insert_with(|| node.clone());
            desired.ownership.guids.insert(guid);
            desired.table.add_function(guid);
        }
        let placed = inputs.records.placed.get(&node).cloned().unwrap_or_default();
        desired.ownership.placed.extend(&placed);
        desired.placed.insert(node, placed);
    }
    for object in objects {
        let node = object.name_any();
        if let Some(loss) = inputs.lost_nodes.get(&node) {
            desired.lost_nodes.insert(node, *loss);
            continue;
        }
        add_node(inputs, (&rules, &mut quota), &owners, &node, &object.spec.members, &mut desired);
    }
    desired
}

fn add_node<'a>(
    inputs: &PartitionInputs<'a>,
    (rules, quota): (&PartitionRules<'_>, &mut PKeyQuota<'a>),
    owners: &BTreeMap<Guid, String>,
    node: &str,
    members: &'a BTreeMap<String, NodeMember>,
    desired: &mut DesiredMemberships,
) {
    let mut parsed: Vec<(&String, &NodeMember, RequestedPKey, Guid)> = Vec::new();
    for (name, member) in members {
        let at = (node.to_owned(), name.clone());
        match (member.pkey.parse::<RequestedPKey>(), parse_guid(&member.guid)) {
            (Ok(key), Some(guid)) => parsed.push((name, member, key, guid)),
            (Err(error), _) => drop(desired.rejected.insert(at, error.to_string())),
            (_, None) => drop(desired.rejected.insert(at, format!("{:?} is not a GUID", member.guid))),
        }
    }
    // Sort members that the subnet manager already has first, so that none of them is removed in favour of a
    // new one.
    parsed.sort_by_key(|(name, _, key, guid)| {
        let is_in = inputs.observed.is_some_and(|observed| observed.get(*key, *guid).is_some());
        (!is_in, (*name).clone())
    });
    let mut keys = BTreeSet::new();
    let mut tenants: BTreeMap<Guid, BTreeMap<RequestedPKey, BTreeSet<&str>>> = BTreeMap::new();
    for (name, member, key, guid) in parsed {
        let at = (node.to_owned(), name.clone());
        let rejection = rejection_reason(inputs, owners, node, member, key, guid);
        let rejection = rejection.or_else(|| apply_rules(inputs, rules, &at, member, (key, guid), desired));
        let rejection = rejection.or_else(|| quota.add(rules, &member.namespace, key));
        let full = !keys.contains(&key) && keys.len() >= MAX_NODE_PKEYS;
        let rejection = rejection.or_else(|| {
            full.then(|| {
                format!(
                    "the node is already in {MAX_NODE_PKEYS} partitions, which is the maximum of its driver"
                )
            })
        });
        if let Some(reason) = rejection {
            desired.rejected.insert(at, reason);
            continue;
        }
        keys.insert(key);
        desired.table.insert(key, guid, requested_membership(member));
        desired.accepted.insert(at, (key, guid));
        if is_added_by_us(inputs, member, key, guid) {
            desired.placed.entry(node.to_owned()).or_default().insert((key, guid));
            desired.ownership.placed.insert((key, guid));
        }
        if member.shared {
            tenants.entry(guid).or_default().entry(key).or_default().insert(&member.namespace);
        }
    }
    desired.key_counts.insert(node.to_owned(), keys.len());
    for keys in tenants.values() {
        let namespaces: BTreeSet<_> = keys.values().flatten().collect();
        if keys.len() > 1 && namespaces.len() > 1 {
            desired.shared_port_keys.entry(node.to_owned()).or_default().extend(keys.keys());
        }
    }
}

/// Whether Ferroband adds the membership, and must therefore remove it later. The membership of a physical port that
/// someone else added stays when the pod is gone. Until the subnet manager's members are known, nothing is added.
fn is_added_by_us(inputs: &PartitionInputs<'_>, member: &NodeMember, key: RequestedPKey, guid: Guid) -> bool {
    let is_absent = inputs.observed.is_some_and(|observed| observed.get(key, guid).is_none())
        && !inputs.unread.contains(&key);
    inputs.managed && (!member.shared || is_absent)
}

/// Returns the membership of a physical port that someone else added.
fn foreign_membership(
    inputs: &PartitionInputs<'_>,
    node: &str,
    member: &NodeMember,
    key: RequestedPKey,
    guid: Guid,
) -> Option<Membership> {
    let is_ours = inputs.records.placed.get(node).is_some_and(|placed| placed.contains(&(key, guid)));
    inputs.observed?.get(key, guid).filter(|_| member.shared && !is_ours)
}

/// Applies the Partition objects to a member, and returns why it is rejected. A member that was accepted before stays,
/// unless the administrator has confirmed that running members are removed.
fn apply_rules(
    inputs: &PartitionInputs<'_>,
    rules: &PartitionRules<'_>,
    at: &MemberId,
    member: &NodeMember,
    (key, guid): PartitionMember,
    desired: &mut DesiredMemberships,
) -> Option<String> {
    let was_accepted = inputs.records.accepted.get(at) == Some(&(key, guid));
    let (treatment, reason) = match rules.admission(key, member) {
        PartitionAdmission::Admitted => return None,
        PartitionAdmission::Warned(warning) => (NotAdmittedTreatment::Warned, warning),
        PartitionAdmission::Refused { reason, removes_running: false } if was_accepted => {
            (NotAdmittedTreatment::Kept, reason)
        }
        PartitionAdmission::Refused { reason, .. } => (NotAdmittedTreatment::Refused, reason),
    };
    let rejection = Some(reason.clone()).filter(|_| treatment == NotAdmittedTreatment::Refused);
    let entry = NotAdmittedMember { key, member: member.clone(), treatment, reason };
    desired.not_admitted.insert(at.clone(), entry);
    rejection
}

/// Returns why a member is rejected whatever the Partition objects say, or `None` if it is accepted.
fn rejection_reason(
    inputs: &PartitionInputs<'_>,
    owners: &BTreeMap<Guid, String>,
    node: &str,
    member: &NodeMember,
    key: RequestedPKey,
    guid: Guid,
) -> Option<String> {
    if !inputs.managed_keys.contains(key) {
        return Some(format!(
            "partition {key} is outside the P_Key range {} that Ferroband manages",
            inputs.managed_keys
        ));
    }
    if guid.is_unset() {
        return Some("the virtual function has no GUID".to_owned());
    }
    match owners.get(&guid) {
        Some(owner) if owner != node => return Some(format!("GUID {guid} is claimed by node {owner}")),
        // No node has claimed the GUID for a virtual function. Only a member on a shared physical port needs
        // no claim.
        None if !member.shared => {
            return Some(format!("no virtual function of the node has claimed GUID {guid}"));
        }
        _ => {}
    }
    if let Some(existing) = foreign_membership(inputs, node, member, key, guid)
        && existing != requested_membership(member)
    {
        return Some(format!(
            "port {guid} is already a {existing} member of partition {key}, added outside of Ferroband; request this membership in the network, or change it in the subnet manager"
        ));
    }
    None
}

fn requested_membership(member: &NodeMember) -> Membership {
    if member.limited { Membership::Limited } else { Membership::Full }
}

#[cfg(test)]
mod tests;
