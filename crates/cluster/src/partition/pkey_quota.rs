//! The quota of P_Keys per namespace. A node and the fabric have room for few partitions, so one tenant must not use up
//! all of them. Does no I/O.

use super::desired::PartitionInputs;
use super::rules::PartitionRules;
use ferroband_partition::RequestedPKey;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// The P_Keys that the pods of each namespace use. A P_Key does not count for the namespaces that its Partition object
/// lists by name: the administrator has assigned it to them.
pub struct PKeyQuota<'a> {
    /// `None` if there is no limit.
    max: Option<usize>,
    used: BTreeMap<&'a str, BTreeSet<RequestedPKey>>,
}

impl<'a> PKeyQuota<'a> {
    /// Counts the P_Keys of members that were accepted before, so that new members never take their place.
    pub fn new(inputs: &PartitionInputs<'a>, rules: &PartitionRules<'_>) -> Self {
        let max = Some(inputs.settings.max_pkeys_per_namespace).filter(|max| *max > 0);
        let mut used: BTreeMap<&str, BTreeSet<RequestedPKey>> = BTreeMap::new();
        if max.is_some() {
            for object in inputs.node_partitions {
                let node = object.name_any();
                for (name, member) in &object.spec.members {
                    let accepted = inputs.records.accepted.get(&(node.clone(), name.clone()));
                    if let Some((key, _)) = accepted
                        && member.pkey.parse() == Ok(*key)
                        && !rules.is_assigned(*key, &member.namespace)
                    {
                        used.entry(&member.namespace).or_default().insert(*key);
                    }
                }
            }
        }
        Self { max, used }
    }

    /// Adds a P_Key of a namespace. Returns why it is rejected if the namespace already uses too many.
    pub fn add(
        &mut self,
        rules: &PartitionRules<'_>,
        namespace: &'a str,
        key: RequestedPKey,
    ) -> Option<String> {
        let max = self.max?;
        if rules.is_assigned(key, namespace) {
            return None;
        }
        let used = self.used.entry(namespace).or_default();
        if !used.contains(&key) && used.len() >= max {
            return Some(format!(
                "namespace {namespace} already uses {} P_Keys, and its quota is {max} (partitions.maxPKeysPerNamespace); delete pods of other partitions, or ask the fabric administrator to list the namespace in a Partition object of {key}",
                used.len()
            ));
        }
        used.insert(key);
        None
    }
}
