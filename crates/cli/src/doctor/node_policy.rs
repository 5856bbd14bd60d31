//! Checks the ValidatingAdmissionPolicy that limits the accounts of node daemons to their own nodes. Without it, a
//! compromised node could change objects of other nodes.

use super::finding::DoctorFinding;
use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// Name of the policy and of its binding.
const NAME: &str = "ferroband-node";
const REMEDY: &str = "apply the manifests of this version (`ferroband manifests`, or the Helm chart)";

/// Reads the policy and its binding, and compares the policy with that of this version of Ferroband.
pub async fn check(client: &Client) -> anyhow::Result<Vec<DoctorFinding>> {
    let by_name = ListParams::default().fields(&format!("metadata.name={NAME}"));
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    match (policies.list(&by_name).await, bindings.list(&by_name).await) {
        (Ok(policies), Ok(bindings)) => Ok(vec![compare(&expected()?, &policies.items, &bindings.items)]),
        (Err(error), _) | (_, Err(error)) => Ok(vec![DoctorFinding::note(
            "node policy",
            format!("cannot read ValidatingAdmissionPolicies: {error}"),
            "grant permission to list validatingadmissionpolicies and validatingadmissionpolicybindings",
        )]),
    }
}

/// The policy in the manifests of this version.
fn expected() -> anyhow::Result<ValidatingAdmissionPolicy> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(crate::manifests::NODE_POLICY)?;
    let policy = objects.into_iter().find(|object| object["kind"] == "ValidatingAdmissionPolicy");
    Ok(serde_json::from_value(policy.context("no policy in the manifests")?)?)
}

fn compare(
    expected: &ValidatingAdmissionPolicy,
    policies: &[ValidatingAdmissionPolicy],
    bindings: &[ValidatingAdmissionPolicyBinding],
) -> DoctorFinding {
    let check = "node policy";
    let Some(policy) = policies.iter().find(|policy| policy.name_any() == NAME) else {
        let observed = format!(
            "ValidatingAdmissionPolicy {NAME} is missing: a node account may change \
             objects of other nodes"
        );
        return DoctorFinding::problem(check, observed, REMEDY);
    };
    let binds = |binding: &&ValidatingAdmissionPolicyBinding| {
        binding.spec.as_ref().is_some_and(|spec| {
            let denies = spec.validation_actions.iter().flatten().any(|action| action == "Deny");
            spec.policy_name.as_deref() == Some(NAME) && denies && spec.match_resources.is_none()
        })
    };
    if bindings.iter().find(binds).is_none() {
        let observed = format!(
            "ValidatingAdmissionPolicyBinding {NAME} is missing, does not deny, or applies to a part of the \
             objects only: a node account may change objects of other nodes"
        );
        return DoctorFinding::problem(check, observed, REMEDY);
    }
    if rules(policy) != rules(expected) {
        let observed = format!("ValidatingAdmissionPolicy {NAME} is not that of this version");
        return DoctorFinding::problem(check, observed, REMEDY);
    }
    DoctorFinding::ok(check, "node accounts may change only objects of their own node")
}

/// What a policy checks: whether an error denies the request, its variables and its expressions. Fields that the API
/// server sets are left out.
fn rules(policy: &ValidatingAdmissionPolicy) -> Vec<&str> {
    let Some(spec) = &policy.spec else { return Vec::new() };
    let failure = spec.failure_policy.as_deref();
    let resources = spec.match_constraints.iter().flat_map(|rules| rules.resource_rules.iter().flatten());
    let resources = resources.flat_map(|rule| rule.resources.iter().flatten()).map(String::as_str);
    let variables = spec.variables.iter().flatten().map(|variable| variable.expression.as_str());
    let validations = spec.validations.iter().flatten().map(|validation| validation.expression.as_str());
    failure.into_iter().chain(resources).chain(variables).chain(validations).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::DoctorVerdict::{Good, Problem};
    use super::*;
    use serde_json::json;

    fn binding(spec: Value) -> ValidatingAdmissionPolicyBinding {
        serde_json::from_value(json!({"metadata": {"name": NAME}, "spec": spec})).unwrap()
    }

    #[test]
    fn policy_and_binding_must_exist_and_be_those_of_this_version() {
        let expected = expected().unwrap();
        assert!(rules(&expected).len() > 10);
        let bound = binding(json!({"policyName": NAME, "validationActions": ["Deny"]}));
        let verdict = |policies: &[ValidatingAdmissionPolicy],
                       bindings: &[ValidatingAdmissionPolicyBinding]| {
            compare(&expected, policies, bindings).verdict
        };
        let installed = [expected.clone()];
        let bindings = [bound];
        assert_eq!(verdict(&installed, &bindings), Good);
        assert_eq!(verdict(&[], &bindings), Problem);
        assert_eq!(verdict(&installed, &[]), Problem);
        for weakened in [
            json!({"policyName": NAME, "validationActions": ["Warn", "Audit"]}),
            json!({"policyName": "other", "validationActions": ["Deny"]}),
            json!({"policyName": NAME, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
        ] {
            assert_eq!(verdict(&installed, &[binding(weakened)]), Problem);
        }
        let changed = |change: fn(&mut Value)| {
            let mut policy = serde_json::to_value(&expected).unwrap();
            change(&mut policy);
            serde_json::from_value::<ValidatingAdmissionPolicy>(policy).unwrap()
        };
        for policy in [
            changed(|policy| policy["spec"]["failurePolicy"] = json!("Ignore")),
            changed(|policy| drop(policy["spec"]["validations"].as_array_mut().unwrap().pop())),
            changed(|policy| policy["spec"]["validations"][1]["expression"] = json!("true")),
            changed(|policy| {
                drop(policy["spec"]["matchConstraints"]["resourceRules"].as_array_mut().unwrap().pop());
            }),
        ] {
            assert_eq!(verdict(&[policy], &bindings), Problem);
        }
    }
}
