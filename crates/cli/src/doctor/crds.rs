//! The custom resource definitions: whether they are there, served, and know every field.

use super::finding::DoctorFinding;
use ferroband_api::all_crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

const APPLY_COMMAND: &str = "ferroband crds apply";

/// Look at the definitions in the cluster.
pub async fn check(client: &Client) -> anyhow::Result<Vec<DoctorFinding>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = api.list(&ListParams::default()).await?.items;
    Ok(compare(&all_crds(), &found))
}

/// What is wrong with `found`, measured by `ours`.
pub fn compare(ours: &[CustomResourceDefinition], found: &[CustomResourceDefinition]) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for mine in ours {
        let name = mine.name_any();
        let check = format!("definition {name}");
        let Some(theirs) = found.iter().find(|definition| definition.name_any() == name) else {
            findings.push(DoctorFinding::problem(check, "not there", APPLY_COMMAND));
            continue;
        };
        let conditions = theirs.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions
            .into_iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
        {
            findings.push(DoctorFinding::problem(
                check,
                "not served",
                "kubectl describe crd, and read its conditions",
            ));
            continue;
        }
        let lacking = missing_fields(mine, theirs);
        if let Some(first) = lacking.first() {
            let seen = format!("{} fields are not known to it, for example {first}", lacking.len());
            findings.push(DoctorFinding::note(
                check,
                seen,
                format!("{APPLY_COMMAND}; {APPLY_COMMAND} --take-over if another manager owns it"),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(DoctorFinding::ok("definitions", format!("all {} are there and current", ours.len())));
    }
    findings
}

/// The fields of `mine` that `theirs` does not describe.
fn missing_fields(mine: &CustomResourceDefinition, theirs: &CustomResourceDefinition) -> Vec<String> {
    let mut all = Vec::new();
    for version in &mine.spec.versions {
        let schema = |definition: &CustomResourceDefinition| {
            let same = definition.spec.versions.iter().find(|other| other.name == version.name)?;
            serde_json::to_value(same.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
        };
        match (schema(mine), schema(theirs)) {
            (Some(mine), Some(theirs)) => collect_missing_fields(&mine, &theirs, "", &mut all),
            (Some(_), None) => all.push(format!("version {}", version.name)),
            _ => {}
        }
    }
    all
}

fn collect_missing_fields(mine: &Value, theirs: &Value, path: &str, lacking: &mut Vec<String>) {
    for (name, field) in mine["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match theirs["properties"].get(name) {
            Some(same) => collect_missing_fields(field, same, &path, lacking),
            None => lacking.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if mine[inner].is_object() && theirs[inner].is_object() {
            collect_missing_fields(&mine[inner], &theirs[inner], path, lacking);
        }
    }
}
