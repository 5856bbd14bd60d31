//! Checks that the CRDs exist, are established and contain every field that this version of Ferroband uses.

use super::finding::DoctorFinding;
use ferroband_api::all_crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// Remedy for a missing or outdated CRD.
const APPLY_COMMAND: &str = "run `ferroband crds apply`";

/// Lists the CRDs in the cluster and compares them with those of this version of Ferroband.
pub async fn check(client: &Client) -> anyhow::Result<Vec<DoctorFinding>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let installed = api.list(&ListParams::default()).await?.items;
    Ok(compare(&all_crds(), &installed))
}

/// Reports CRDs that are absent, not established, or lack fields of the expected CRD.
pub fn compare(
    expected: &[CustomResourceDefinition],
    installed: &[CustomResourceDefinition],
) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for expected_crd in expected {
        let name = expected_crd.name_any();
        let check = format!("CRD {name}");
        let Some(installed_crd) = installed.iter().find(|definition| definition.name_any() == name) else {
            findings.push(DoctorFinding::problem(check, "missing", APPLY_COMMAND));
            continue;
        };
        let conditions = installed_crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions
            .into_iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
        {
            findings.push(DoctorFinding::problem(
                check,
                "not established",
                format!("check its conditions: kubectl describe crd {name}"),
            ));
            continue;
        }
        let missing = missing_fields(expected_crd, installed_crd);
        if let Some(first) = missing.first() {
            let observed =
                format!("{} fields are missing from its schema, for example {first}", missing.len());
            findings.push(DoctorFinding::note(
                check,
                observed,
                format!("{APPLY_COMMAND}; add --take-over if another field manager owns the CRD"),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::ok("CRDs", format!("all {} are up to date", expected.len())));
    }
    findings
}

/// Returns the paths (`.spec.field`) that the expected schema describes and the installed one does not. A version that
/// is not installed is reported as `version NAME`.
fn missing_fields(expected: &CustomResourceDefinition, installed: &CustomResourceDefinition) -> Vec<String> {
    let mut all = Vec::new();
    for version in &expected.spec.versions {
        let schema = |definition: &CustomResourceDefinition| {
            let same = definition.spec.versions.iter().find(|other| other.name == version.name)?;
            serde_json::to_value(same.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
        };
        match (schema(expected), schema(installed)) {
            (Some(expected), Some(installed)) => collect_missing_fields(&expected, &installed, "", &mut all),
            (Some(_), None) => all.push(format!("version {}", version.name)),
            _ => {}
        }
    }
    all
}

fn collect_missing_fields(expected: &Value, installed: &Value, path: &str, missing: &mut Vec<String>) {
    for (name, field) in expected["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match installed["properties"].get(name) {
            Some(same) => collect_missing_fields(field, same, &path, missing),
            None => missing.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if expected[inner].is_object() && installed[inner].is_object() {
            collect_missing_fields(&expected[inner], &installed[inner], path, missing);
        }
    }
}
