//! Which of Ferroband's own objects stay after an uninstallation, and why. Does no I/O.

use ferroband_api::ferroband::{AddressBlock, GuidBlock, NodePartitions};
use ferroband_api::sriov::SriovNetworkNodeState;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// A block stays while a pod in `pods` (by UID) has one of its addresses. Otherwise a later installation could assign
/// the address again before the pod's node reports it.
pub fn keep_address_block(block: &AddressBlock, pods: &BTreeSet<String>) -> Option<String> {
    let entries = block.spec.entries.values();
    let used: BTreeSet<&str> =
        entries.filter(|entry| pods.contains(&entry.uid)).map(|entry| entry.pod.as_str()).collect();
    let first = used.first()?;
    Some(match used.len() {
        1 => format!("pod {first} has an address of it; run this command again when the pod is deleted"),
        count => format!(
            "pod {first} and {} more have addresses of it; run this command again when they are deleted",
            count - 1
        ),
    })
}

/// The object stays while it lists members, because nothing else records what is still in the subnet manager.
pub fn keep_node_partitions(object: &NodePartitions) -> Option<String> {
    let placed = object.status.as_ref().map_or(0, |status| status.placed.len());
    let count = object.spec.members.len().max(placed);
    (count > 0).then(|| {
        format!(
            "the subnet manager may still have {count} partition members of this node; remove them there (`kubectl get \
             nodepartitions -o yaml` lists them), or install Ferroband again, then delete the object"
        )
    })
}

/// A block stays while it has claims, because virtual functions keep their GUIDs.
pub fn keep_guid_block(block: &GuidBlock) -> Option<String> {
    let count = block.spec.claims.len();
    (count > 0).then(|| {
        format!(
            "virtual functions still have {count} GUIDs of it; they are released if the policies are deleted before the \
             uninstallation"
        )
    })
}

/// The object of another operator has an owner.
pub fn keep_node_state(state: &SriovNetworkNodeState) -> Option<String> {
    let owner = state.owner_references().first()?;
    Some(format!("it belongs to {} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn block(uids: &[&str]) -> AddressBlock {
        let entries: serde_json::Map<String, Value> = (0..)
            .zip(uids)
            .map(|(offset, uid)| {
                let entry = json!({"pod": format!("a/{uid}"), "uid": uid, "interface": "net1", "container": "c",
                    "node": "n1"});
                (i32::to_string(&offset), entry)
            })
            .collect();
        read(json!({"metadata": {"name": "b"}, "spec": {"space": "default", "first": "192.168.0.0",
            "entries": entries}}))
    }

    #[test]
    fn address_block_stays_while_a_pod_uses_it() {
        let pods = BTreeSet::from(["u1".to_owned(), "u2".to_owned()]);
        assert_eq!(keep_address_block(&block(&[]), &pods), None);
        assert_eq!(keep_address_block(&block(&["gone"]), &pods), None);
        assert!(
            keep_address_block(&block(&["gone", "u1"]), &pods)
                .unwrap()
                .starts_with("pod a/u1 has an address")
        );
        assert!(keep_address_block(&block(&["u1", "u2"]), &pods).unwrap().starts_with("pod a/u1 and 1 more"));
    }

    #[test]
    fn objects_without_members_claims_or_owner_are_deleted() {
        let partitions = |spec: Value, status: Value| {
            let object = json!({"metadata": {"name": "n1"}, "spec": spec, "status": status});
            keep_node_partitions(&read(object))
        };
        assert_eq!(
            partitions(json!({"functions": {"0000:3b:00.2": "02:00:00:00:00:00:00:01"}}), Value::Null),
            None
        );
        assert!(partitions(json!({}), json!({"placed": ["0x0005 1"]})).is_some());
        let guids = |claims: Value| {
            keep_guid_block(&read(json!({"metadata": {"name": "g"}, "spec": {"claims": claims}})))
        };
        assert_eq!(guids(json!({})), None);
        assert!(guids(json!({"0": {"node": "n1", "device": "0000:3b:00.2"}})).is_some());
        let state = |owners: Value| {
            keep_node_state(&read(json!({"metadata": {"name": "n1", "ownerReferences": owners}, "spec": {}})))
        };
        assert_eq!(state(json!([])), None);
        let owner = json!({"apiVersion": "v1", "kind": "SriovOperatorConfig", "name": "default", "uid": "u"});
        assert_eq!(state(json!([owner])).as_deref(), Some("it belongs to SriovOperatorConfig default"));
    }
}
