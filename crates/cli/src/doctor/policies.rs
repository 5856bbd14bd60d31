//! Checks the conditions of SriovNetworkNodePolicies: rejected policies, and policies that match nothing.

use super::finding::DoctorFinding;
use crate::status::ClusterObjects;
use ferroband_api::sriov::SriovNetworkNodePolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// Reasons of false conditions that are not failures: the nodes are still working on the policy.
const IN_PROGRESS: [&str; 2] = ["NotReported", "InProgress"];

/// Reports every policy that is rejected, matches no node or adapter, or failed on a node.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = objects.policies.iter().filter_map(policy).collect();
    if findings.is_empty() && !objects.policies.is_empty() {
        findings
            .push(DoctorFinding::ok("policies", format!("{} policies are applied", objects.policies.len())));
    }
    findings
}

fn policy(policy: &SriovNetworkNodePolicy) -> Option<DoctorFinding> {
    let check = format!("policy {}/{}", policy.namespace().unwrap_or_default(), policy.name_any());
    let conditions = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if conditions.is_empty() {
        let remedy = "check that the cluster daemon runs and that one of its replicas is the leader";
        return Some(DoctorFinding::note(check, "no daemon has evaluated it yet", remedy));
    }
    // A rejected policy matches nothing, and a policy without a match is not ready. Report the cause only.
    let failed = |kind: &str| conditions.iter().find(|c| c.type_ == kind && c.status == "False");
    let condition = failed("Accepted").or_else(|| failed("Matched")).or_else(|| failed("Ready"))?;
    let Condition { reason, message, .. } = condition;
    let observed = format!("{reason}: {message}");
    Some(match IN_PROGRESS.contains(&reason.as_str()) {
        true => DoctorFinding::note(check, observed, "wait until the nodes have applied it"),
        false => {
            DoctorFinding::problem(check, observed, "correct the policy, or the cause that the message names")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::DoctorVerdict::{self, Good, Note, Problem};
    use super::*;
    use serde_json::json;

    fn verdict(conditions: &[(&str, &str, &str)]) -> (DoctorVerdict, String) {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, reason)| {
                json!({"type": kind, "status": status, "reason": reason, "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let policy = json!({"metadata": {"name": "p", "namespace": "x"},
            "spec": {"resourceName": "ib", "nodeSelector": {}, "nicSelector": {}, "numVfs": 1},
            "status": {"conditions": conditions}});
        let objects = ClusterObjects {
            policies: vec![serde_json::from_value(policy).unwrap()],
            ..ClusterObjects::default()
        };
        let mut findings = check(&objects);
        assert_eq!(findings.len(), 1, "{findings:?}");
        let finding = findings.remove(0);
        (finding.verdict, finding.observed)
    }

    #[test]
    fn policy_that_matches_nothing_is_a_problem() {
        let accepted = ("Accepted", "True", "Valid");
        let not_ready = ("Ready", "False", "NoMatch");
        assert_eq!(
            verdict(&[accepted, ("Matched", "False", "NoNode"), not_ready]),
            (Problem, "NoNode: m".into())
        );
        assert_eq!(verdict(&[accepted, ("Matched", "False", "NoNic"), not_ready]).0, Problem);
        assert_eq!(verdict(&[("Accepted", "False", "Invalid"), not_ready]), (Problem, "Invalid: m".into()));
        let matched = ("Matched", "True", "Matched");
        assert_eq!(verdict(&[accepted, matched, ("Ready", "False", "Failed")]).0, Problem);
        assert_eq!(verdict(&[accepted, matched, ("Ready", "False", "InProgress")]).0, Note);
        assert_eq!(verdict(&[accepted, ("Matched", "False", "NotReported"), not_ready]).0, Note);
        assert_eq!(verdict(&[accepted, matched, ("Ready", "True", "AllNodesReady")]).0, Good);
        assert_eq!(verdict(&[]).0, Note);
        assert!(check(&ClusterObjects::default()).is_empty());
    }
}
