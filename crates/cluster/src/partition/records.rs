//! What the leader recorded about members in the status of NodePartitions. The records survive the leader, and outlive
//! the members that they describe.

use super::desired::MemberId;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsStatus};
use ferroband_model::Guid;
use ferroband_partition::{RequestedPKey, parse_guid};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A partition and the GUID of a member. In a status, it has the format `<pkey> <guid>`.
pub type PartitionMember = (RequestedPKey, Guid);

/// Records of all nodes, by the node's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionRecords {
    /// Memberships that Ferroband added or is about to add, and whose removal is not confirmed (`status.placed`).
    pub placed: BTreeMap<String, BTreeSet<PartitionMember>>,
    /// Members that were accepted (`status.accepted`).
    pub accepted: BTreeMap<MemberId, PartitionMember>,
}

impl PartitionRecords {
    /// Reads the records of all objects. `written` are the records that this leader wrote: the cached objects may not
    /// show them yet.
    pub fn read(objects: &[Arc<NodePartitions>], written: &Self) -> Self {
        let mut records = Self::default();
        for object in objects {
            let node = object.name_any();
            if let Some(status) = &object.status {
                records.add_status(&node, status);
            }
            let placed = written.placed.get(&node).into_iter().flatten();
            records.placed.entry(node).or_default().extend(placed);
        }
        records.accepted.extend(written.accepted.clone());
        records
    }

    /// Replaces the records of a node with those of a status that was written.
    pub fn set_status(&mut self, node: &str, status: &NodePartitionsStatus) {
        self.placed.remove(node);
        self.accepted.retain(|(other, _), _| other != node);
        self.add_status(node, status);
    }

    fn add_status(&mut self, node: &str, status: &NodePartitionsStatus) {
        let placed = status.placed.iter().filter_map(|text| parse_member(text));
        self.placed.entry(node.to_owned()).or_default().extend(placed);
        let member =
            |(name, text): (&String, &String)| Some(((node.to_owned(), name.clone()), parse_member(text)?));
        self.accepted.extend(status.accepted.iter().filter_map(member));
    }

    /// Removes the records of nodes that have no object any more.
    pub fn retain_nodes(&mut self, objects: &[Arc<NodePartitions>]) {
        let names: BTreeSet<String> = objects.iter().map(|object| object.name_any()).collect();
        self.placed.retain(|node, _| names.contains(node));
        self.accepted.retain(|(node, _), _| names.contains(node));
    }
}

/// Formats a membership for a status.
pub fn format_member((key, guid): &PartitionMember) -> String {
    format!("{key} {guid}")
}

/// Parses a membership in a status.
pub fn parse_member(text: &str) -> Option<PartitionMember> {
    let (key, guid) = text.split_once(' ')?;
    Some((key.parse().ok()?, parse_guid(guid)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::ferroband::NodePartitionsSpec;

    fn status(placed: &[&str]) -> NodePartitionsStatus {
        let placed = placed.iter().map(|text| (*text).to_owned()).collect();
        NodePartitionsStatus { placed, ..NodePartitionsStatus::default() }
    }

    #[test]
    fn records_that_the_cache_does_not_show_yet_are_kept() {
        let text = "0x0005 b8:59:9f:03:00:a1:b2:c4";
        let member = parse_member(text).unwrap();
        assert_eq!(format_member(&member), text);
        let object = Arc::new(NodePartitions::new("n1", NodePartitionsSpec::default()));
        let mut written = PartitionRecords::default();
        written.set_status("n1", &status(&[text, "nonsense"]));
        let records = PartitionRecords::read(std::slice::from_ref(&object), &written);
        assert_eq!(records.placed["n1"], BTreeSet::from([member]));
        // The removal is confirmed.
        written.set_status("n1", &status(&[]));
        assert!(PartitionRecords::read(&[object], &written).placed["n1"].is_empty());
        written.retain_nodes(&[]);
        assert!(written.placed.is_empty());
    }
}
