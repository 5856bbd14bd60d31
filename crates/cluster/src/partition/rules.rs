//! The rules of Partition objects: which namespaces may use a P_Key. Does no I/O.

use ferroband_api::ferroband::{NodeMember, Partition, PartitionMode};
use ferroband_partition::RequestedPKey;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Partition objects of each P_Key.
pub struct PartitionRules<'a> {
    by_key: BTreeMap<RequestedPKey, Vec<&'a Partition>>,
}

/// What the Partition objects say about a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionAdmission {
    /// The namespace may use the partition, or no Partition object names its P_Key.
    Admitted,
    /// The namespace is not listed, but no object is enforced. The text is the warning.
    Warned(String),
    /// An enforced object does not admit the namespace.
    Refused {
        reason: String,
        /// Whether members that were accepted before are removed.
        removes_running: bool,
    },
}

impl<'a> PartitionRules<'a> {
    /// Groups the Partition objects by P_Key. Objects with an invalid P_Key are ignored.
    pub fn new(partitions: &'a [Arc<Partition>]) -> Self {
        let mut by_key: BTreeMap<RequestedPKey, Vec<&Partition>> = BTreeMap::new();
        for partition in partitions {
            if let Ok(key) = partition.spec.pkey.parse() {
                by_key.entry(key).or_default().push(partition);
            }
        }
        Self { by_key }
    }

    /// Returns whether the member's namespace may use the partition.
    pub fn admission(&self, key: RequestedPKey, member: &NodeMember) -> PartitionAdmission {
        let partitions = self.by_key.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_enforced = partitions.iter().any(|partition| partition.spec.mode == PartitionMode::Enforce);
        let (namespace, Some(first)) = (&member.namespace, partitions.first()) else {
            return PartitionAdmission::Admitted;
        };
        let name = first.name_any();
        if partitions.len() > 1 && is_enforced {
            return PartitionAdmission::Refused {
                reason: format!(
                    "several Partition objects, among them {name}, have the P_Key {key}; delete all but one"
                ),
                removes_running: false,
            };
        }
        if first.spec.namespaces.iter().any(|admitted| admitted == "*" || admitted == namespace) {
            return PartitionAdmission::Admitted;
        }
        if is_enforced {
            return PartitionAdmission::Refused {
                reason: format!(
                    "namespace {namespace} may not use partition {key}: Partition {name} admits {}",
                    first.spec.namespaces.join(", ")
                ),
                removes_running: first.spec.remove_running_members,
            };
        }
        PartitionAdmission::Warned(format!(
            "namespace {namespace} uses partition {key}, but Partition {name} does not admit this namespace"
        ))
    }
}
