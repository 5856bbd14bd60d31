//! Checks the members of the fabric's partitions: members that Partition objects do not admit, and members that the
//! subnet manager does not have.

use super::finding::{DoctorFinding, first_and_more};
use crate::partition::view::{MemberRow, PartitionView};
use crate::status::ClusterObjects;
use ferroband_api::ferroband::Partition;
use ferroband_partition::RequestedPKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Checks all members of all nodes. Members with the same state in the same partition are one finding.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut findings = duplicate_partitions(&objects.partitions);
    let view = PartitionView {
        nodes: objects.node_partitions.clone(),
        rules: objects.partitions.clone(),
        fabric: None,
    };
    let members = view.members(|_| true);
    findings.extend(objects.partitions.iter().flat_map(not_admitted));
    findings.extend(not_programmed(&members));
    findings.extend(node_conditions(objects));
    if findings.is_empty() && !members.is_empty() {
        findings.push(DoctorFinding::ok("partitions", format!("{} members are as desired", members.len())));
    }
    findings
}

/// Several Partition objects with one P_Key contradict each other.
fn duplicate_partitions(partitions: &[Partition]) -> Vec<DoctorFinding> {
    let mut names: BTreeMap<RequestedPKey, Vec<String>> = BTreeMap::new();
    for partition in partitions {
        if let Ok(key) = partition.spec.pkey.parse() {
            names.entry(key).or_default().push(partition.name_any());
        }
    }
    let several = names.into_iter().filter(|(_, names)| names.len() > 1);
    several
        .map(|(key, names)| {
            let observed = format!("Partition objects {} have the same P_Key", names.join(", "));
            DoctorFinding::problem(format!("partition {key}"), observed, "delete all of them but one")
        })
        .collect()
}

/// Members that are in the partition although the object does not list their namespace. The leader says so in the
/// Partition's condition `MembersAdmitted`. Refused members are in [`not_programmed`].
fn not_admitted(partition: &Partition) -> Vec<DoctorFinding> {
    let check = format!("Partition {}", partition.name_any());
    let conditions = partition.status.iter().flat_map(|status| &status.conditions);
    let finding = |condition: &Condition| match condition.reason.as_str() {
        "MembersWarned" => Some(DoctorFinding::note(
            &check,
            condition.message.as_str(),
            "admit the namespaces, or set spec.mode to enforce",
        )),
        "RunningMembersKept" => Some(DoctorFinding::problem(
            &check,
            condition.message.as_str(),
            "admit the namespaces, delete the pods, or set spec.removeRunningMembers to true",
        )),
        _ => None,
    };
    conditions.filter(|condition| condition.status == "False").filter_map(finding).collect()
}

/// Members that the leader refused, or that the subnet manager has rejected.
fn not_programmed(members: &[MemberRow]) -> Vec<DoctorFinding> {
    let mut groups: BTreeMap<(&str, &str), Vec<&MemberRow>> = BTreeMap::new();
    for row in members.iter().filter(|row| matches!(row.state.as_str(), "refused" | "failing")) {
        groups.entry((&row.pkey, &row.state)).or_default().push(row);
    }
    let finding = |((pkey, state), rows): ((&str, &str), Vec<&MemberRow>)| {
        let pods: Vec<String> = rows.iter().map(|row| format!("{}/{}", row.namespace, row.pod)).collect();
        let why = rows.first().map(|row| row.why.as_str()).unwrap_or_default();
        let observed = format!("pod {} {state}: {why}", first_and_more(&pods));
        DoctorFinding::problem(
            format!("partition {pkey}"),
            observed,
            "run `ferroband partition diff` for all members; retried automatically once the cause is gone",
        )
    };
    groups.into_iter().map(finding).collect()
}

/// Failed conditions of NodePartitions: tenants that share a port, or no room for another P_Key.
fn node_conditions(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for node in &objects.node_partitions {
        let conditions = node.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions.filter(|condition| condition.status == "False") {
            findings.push(DoctorFinding::note(
                format!("partitions of node {}", node.name_any()),
                format!("{}: {}", condition.reason, condition.message),
                "move pods to other nodes or functions as the message says",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::DoctorVerdict::{Good, Note, Problem};
    use super::*;
    use serde_json::{Value, json};

    fn partition(name: &str, status: &str, reason: &str) -> Value {
        let condition = json!({"type": "MembersAdmitted", "status": status, "reason": reason,
            "message": "pods blue/p", "lastTransitionTime": "2024-01-01T00:00:00Z"});
        json!({"metadata": {"name": name}, "spec": {"pkey": "0x5", "namespaces": ["red"]},
            "status": {"conditions": [condition]}})
    }

    fn findings(namespaces: &[&str], waiting: Value, partitions: &[Value]) -> Vec<DoctorFinding> {
        let members: serde_json::Map<_, _> = namespaces
            .iter()
            .map(|namespace| {
                let member = json!({"device": "0000:3b:00.2", "guid": "02:00:00:00:00:00:00:01", "pkey": "0x0005",
                    "namespace": namespace, "pod": "p", "uid": "u", "network": "red/ib"});
                (format!("{namespace}.net1"), member)
            })
            .collect();
        let node = json!({"metadata": {"name": "n1", "generation": 1}, "spec": {"members": members},
            "status": {"observedGeneration": 1, "waiting": waiting}});
        check(&ClusterObjects {
            node_partitions: vec![serde_json::from_value(node).unwrap()],
            partitions: partitions.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect(),
            ..ClusterObjects::default()
        })
    }

    #[test]
    fn members_that_are_not_admitted_are_found() {
        let found = |status, reason| findings(&["blue"], json!({}), &[partition("five", status, reason)]);
        let kept = found("False", "RunningMembersKept");
        assert_eq!((kept.len(), kept[0].verdict, kept[0].check.as_str()), (1, Problem, "Partition five"));
        assert!(kept[0].observed.contains("blue/p"), "{kept:?}");
        assert!(kept[0].remedy.as_ref().unwrap().contains("removeRunningMembers"));
        assert_eq!(found("False", "MembersWarned")[0].verdict, Note);
        assert_eq!(found("True", "AllAdmitted")[0].verdict, Good);
        assert!(findings(&[], json!({}), &[partition("five", "True", "AllAdmitted")]).is_empty());
    }

    #[test]
    fn refused_and_failing_members_are_problems() {
        let refused = json!({"blue.net1": {"refused": true, "message": "namespace blue may not use it"}});
        let found = findings(&["blue", "red"], refused, &[partition("five", "False", "MembersRefused")]);
        assert_eq!((found.len(), found[0].verdict), (1, Problem));
        assert_eq!(found[0].observed, "pod blue/p refused: namespace blue may not use it");
        let failing = json!({"blue.net1": {"attempts": 2, "message": "connection refused"},
            "red.net1": {"attempts": 2, "message": "connection refused"}});
        let found = findings(&["blue", "red"], failing, &[]);
        assert_eq!(found[0].observed, "pod blue/p and 1 more failing: connection refused");
        let pending = json!({"blue.net1": {"attempts": 0}});
        assert_eq!(findings(&["blue"], pending, &[])[0].verdict, Good, "not tried yet");
    }

    #[test]
    fn several_partition_objects_with_one_pkey_are_a_problem() {
        let found = findings(
            &[],
            json!({}),
            &[partition("a", "True", "AllAdmitted"), partition("b", "True", "AllAdmitted")],
        );
        assert_eq!((found.len(), found[0].verdict), (1, Problem));
        assert!(found[0].observed.contains("a, b"), "{found:?}");
    }
}
