//! The rules of Partition objects: which namespaces may use a P_Key. Does no I/O.

use ferroband_api::ferroband::{NodeMember, Partition, PartitionMode};
use ferroband_daemon::{TenantPolicy, UnlistedPartitions};
use ferroband_partition::RequestedPKey;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Partition objects of each P_Key.
pub struct PartitionRules<'a> {
    by_key: BTreeMap<RequestedPKey, Vec<&'a Partition>>,
    tenants: &'a TenantPolicy,
}

/// What the Partition objects say about a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionAdmission {
    /// The namespace may use the partition, or nobody decides about its P_Key.
    Admitted,
    /// The namespace or the P_Key is not listed, but nothing is enforced. The text is the warning.
    Warned(String),
    /// An enforced object does not admit the namespace, or no object lists the P_Key and such P_Keys are refused.
    Refused {
        reason: String,
        /// Whether members that were accepted before are removed.
        removes_running: bool,
    },
}

impl<'a> PartitionRules<'a> {
    /// Groups the Partition objects by P_Key. Objects with an invalid P_Key are ignored.
    pub fn new(partitions: &'a [Arc<Partition>], tenants: &'a TenantPolicy) -> Self {
        let mut by_key: BTreeMap<RequestedPKey, Vec<&Partition>> = BTreeMap::new();
        for partition in partitions {
            if let Ok(key) = partition.spec.pkey.parse() {
                by_key.entry(key).or_default().push(partition);
            }
        }
        Self { by_key, tenants }
    }

    /// Returns whether the member's namespace may use the partition.
    pub fn admission(&self, key: RequestedPKey, member: &NodeMember) -> PartitionAdmission {
        let partitions = self.by_key.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_enforced = partitions.iter().any(|partition| partition.spec.mode == PartitionMode::Enforce);
        let (namespace, Some(first)) = (&member.namespace, partitions.first()) else {
            return self.admission_of_unlisted(key, member);
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

    /// Returns whether a member may use a P_Key that no Partition object lists. Networks in trusted namespaces are
    /// written by administrators and need no object.
    fn admission_of_unlisted(&self, key: RequestedPKey, member: &NodeMember) -> PartitionAdmission {
        if self.tenants.is_trusted_network(&member.network) {
            return PartitionAdmission::Admitted;
        }
        let reason = format!("no Partition object lists the P_Key {key} of network {}", member.network);
        match self.tenants.unlisted_partitions {
            UnlistedPartitions::Refuse => PartitionAdmission::Refused {
                reason: format!(
                    "{reason} (partitions.unlisted: refuse); ask the fabric administrator for one"
                ),
                removes_running: false,
            },
            // Without any Partition object, partitions are open by choice.
            UnlistedPartitions::Warn if self.by_key.is_empty() => PartitionAdmission::Admitted,
            UnlistedPartitions::Warn => PartitionAdmission::Warned(format!(
                "{reason}, so every namespace can use it; create a Partition object, or set partitions.unlisted to refuse"
            )),
        }
    }

    /// Whether a Partition object of the P_Key lists the namespace by name.
    pub fn is_assigned(&self, key: RequestedPKey, namespace: &str) -> bool {
        let partitions = self.by_key.get(&key).into_iter().flatten();
        partitions.into_iter().any(|partition| partition.spec.namespaces.iter().any(|one| one == namespace))
    }
}
