//! Checks the subnet manager: whether it answers, and opensm on the nodes that run it.

use super::finding::DoctorFinding;
use crate::status::ClusterObjects;
use ferroband_api::ferroband::{FabricStatus, SubnetManagerHost};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

/// Checks the conditions of the Fabric objects and the status of the SubnetManagerHosts.
pub fn check(objects: &ClusterObjects) -> Vec<DoctorFinding> {
    let statuses: Vec<_> = objects.fabrics.iter().filter_map(|fabric| fabric.status.as_ref()).collect();
    let mut findings: Vec<_> = statuses.iter().flat_map(|status| conditions(status)).collect();
    findings.extend(objects.subnet_manager_hosts.iter().filter_map(opensm));
    if findings.is_empty() {
        findings.extend(statuses.iter().map(|status| match status.manager.as_str() {
            "none" => {
                DoctorFinding::ok("subnet manager", "not configured; P_Keys are managed outside Ferroband")
            }
            manager => DoctorFinding::ok("subnet manager", format!("{manager} answers")),
        }));
    }
    findings
}

fn conditions(status: &FabricStatus) -> Vec<DoctorFinding> {
    let check = format!("subnet manager {}", status.manager);
    let finding = |condition: &Condition| {
        let observed = format!("{}: {}", condition.reason, condition.message);
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Reachable", "False") => {
                Some(DoctorFinding::problem(&check, observed, unreachable_remedy(&condition.reason)))
            }
            ("Reachable", "Unknown") => Some(DoctorFinding::note(
                &check,
                observed,
                "wait; if it persists, check the log of the leader",
            )),
            ("Virtualized", "False") => Some(DoctorFinding::problem(
                &check,
                observed,
                "use the subnet manager that the message names",
            )),
            (_, "False") => {
                Some(DoctorFinding::note(&check, observed, "change the setting that the message names"))
            }
            _ => None,
        }
    };
    status.conditions.iter().filter_map(finding).collect()
}

fn unreachable_remedy(reason: &str) -> &'static str {
    match reason {
        "InvalidConfig" => {
            "correct the ConfigMap ib-kubernetes-config or the Secret ib-kubernetes-ufm-secret in kube-system"
        }
        "Unauthorized" => {
            "correct the user and the password in the Secret ib-kubernetes-ufm-secret in kube-system"
        }
        _ => {
            "start the subnet manager, or correct its address; running pods are not affected, but new pods with a \
             P_Key wait until it answers"
        }
    }
}

/// Reports an opensm that does not run, or has another problem.
fn opensm(host: &SubnetManagerHost) -> Option<DoctorFinding> {
    let check = format!("opensm on node {}", host.name_any());
    let remedy = "check the log of the node daemon and /var/lib/ferroband/opensm/opensm.log on that node";
    let Some(status) = &host.status else {
        return Some(DoctorFinding::problem(check, "the node daemon has not reported its state", remedy));
    };
    match (&status.problem, status.state.as_str()) {
        (Some(problem), _) => Some(DoctorFinding::problem(check, problem, remedy)),
        (None, "stopped") => Some(DoctorFinding::problem(check, "stopped", remedy)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::DoctorVerdict::{Good, Note, Problem};
    use super::*;
    use serde_json::{Value, json};

    fn findings(fabric: Value, host: Option<Value>) -> Vec<DoctorFinding> {
        let fabric = json!({"metadata": {"name": "default"}, "spec": {}, "status": fabric});
        let host = host.map(|status| json!({"metadata": {"name": "n1"}, "spec": {}, "status": status}));
        check(&ClusterObjects {
            fabrics: vec![serde_json::from_value(fabric).unwrap()],
            subnet_manager_hosts: host
                .into_iter()
                .map(|host| serde_json::from_value(host).unwrap())
                .collect(),
            ..ClusterObjects::default()
        })
    }

    fn fabric(kind: &str, status: &str, reason: &str) -> Value {
        json!({"manager": "ufm https://10.0.0.1:443", "conditions": [{"type": kind, "status": status,
            "reason": reason, "message": "connection refused", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    }

    #[test]
    fn unreachable_subnet_manager_is_a_problem() {
        for (reason, remedy) in [
            ("Unreachable", "start the subnet manager"),
            ("Unauthorized", "password"),
            ("InvalidConfig", "ConfigMap"),
        ] {
            let found = findings(fabric("Reachable", "False", reason), None);
            assert_eq!(
                (found[0].verdict, found[0].check.as_str()),
                (Problem, "subnet manager ufm https://10.0.0.1:443")
            );
            assert!(found[0].observed.contains("connection refused"), "{found:?}");
            assert!(found[0].remedy.as_deref().unwrap().contains(remedy), "{found:?}");
        }
        assert_eq!(findings(fabric("Reachable", "True", "Answers"), None)[0].verdict, Good);
        assert_eq!(findings(fabric("Reachable", "Unknown", "NotAnsweredYet"), None)[0].verdict, Note);
        assert_eq!(findings(fabric("Secured", "False", "DefaultKeys"), None)[0].verdict, Note);
        assert!(check(&ClusterObjects::default()).is_empty());
    }

    #[test]
    fn opensm_that_is_missing_or_stopped_is_a_problem() {
        let of = |status| findings(json!({"manager": "opensm"}), Some(status)).remove(0);
        let missing = of(json!({"state": "stopped", "problem": "program opensm not found"}));
        assert_eq!((missing.verdict, missing.observed.as_str()), (Problem, "program opensm not found"));
        assert_eq!(missing.check, "opensm on node n1");
        assert_eq!(of(json!({"state": "stopped"})).verdict, Problem);
        assert_eq!(of(Value::Null).verdict, Problem);
        assert_eq!(of(json!({"state": "running"})).verdict, Good);
    }
}
