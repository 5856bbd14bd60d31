//! Networks, looked at before they are stored: what is wrong is said while its author is there to hear it.

use super::admission::{AdmissionRequest, AdmissionResponse};
use crate::ClusterSettings;
use crate::networks::{
    GROUP_ANNOTATIONS, NetworkSpecError, config_wanted, definition_name_annotation, desired_ib_network,
};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Look at a network.
pub fn review(request: &AdmissionRequest, settings: &ClusterSettings) -> AdmissionResponse {
    let mut answer = AdmissionResponse::default();
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let object = format!("{} {}/{name}", request.kind.kind, request.namespace);
    let result = match request.kind.kind.as_str() {
        "SpiderMultusConfig" => review_config(request, &mut answer),
        "SriovIBNetwork" => review_ib_network(request, settings),
        _ => return answer,
    };
    match result {
        Ok(warnings) => answer.warnings.extend(warnings),
        Err(NetworkReviewError::Invalid(refused)) => answer.denied = Some(refused.fault(&object).to_string()),
        // Newer fields of theirs, perhaps: the reconciler says so as well, and nothing comes of it.
        Err(NetworkReviewError::Unreadable(e)) => {
            answer.warnings.push(format!("{object} cannot be read: {e}"));
        }
        Err(NetworkReviewError::Renamed) => {
            let cause = "the annotation multus.spidernet.io/cr-name cannot be changed or added later";
            let fault = Fault::new(FaultCode::InvalidConfig, object, cause, "create the object anew");
            answer.denied = Some(fault.to_string());
        }
    }
    answer
}

enum NetworkReviewError {
    Invalid(NetworkSpecError),
    Unreadable(serde_json::Error),
    Renamed,
}

fn review_config(
    request: &AdmissionRequest,
    answer: &mut AdmissionResponse,
) -> Result<Vec<String>, NetworkReviewError> {
    let mut config: SpiderMultusConfig =
        serde_json::from_value(request.object.clone()).map_err(NetworkReviewError::Unreadable)?;
    config.metadata.namespace = Some(request.namespace.clone());
    if config.metadata.deletion_timestamp.is_some() {
        return Ok(Vec::new());
    }
    if let Ok(before) = serde_json::from_value::<SpiderMultusConfig>(request.old_object.clone())
        && definition_name_annotation(&before) != definition_name_annotation(&config)
    {
        return Err(NetworkReviewError::Renamed);
    }
    let wanted = config_wanted(&config).map_err(NetworkReviewError::Invalid)?;
    // The labels that Spiderpool's own tools look for.
    let labelled =
        |key: &&str| config.annotations().get(*key).filter(|value| config.labels().get(*key) != Some(value));
    let mut labels = json!(config.labels());
    let mut changed = false;
    for key in GROUP_ANNOTATIONS.iter().filter(|key| labelled(key).is_some()) {
        labels[*key] = Value::from(config.annotations()[*key].as_str());
        changed = true;
    }
    if changed {
        answer.add_patch(&["metadata", "labels"], labels);
    }
    Ok(wanted.warnings)
}

fn review_ib_network(
    request: &AdmissionRequest,
    settings: &ClusterSettings,
) -> Result<Vec<String>, NetworkReviewError> {
    let mut network: SriovIBNetwork =
        serde_json::from_value(request.object.clone()).map_err(NetworkReviewError::Unreadable)?;
    network.metadata.namespace = Some(request.namespace.clone());
    if network.metadata.deletion_timestamp.is_some() {
        return Ok(Vec::new());
    }
    Ok(desired_ib_network(&network, settings).map_err(NetworkReviewError::Invalid)?.warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ask(kind: &str, namespace: &str, object: Value, old: Value) -> AdmissionResponse {
        let request = serde_json::from_value(json!({
            "uid": "u", "kind": {"kind": kind}, "namespace": namespace, "object": object, "oldObject": old,
        }));
        let settings = ClusterSettings {
            identity: "a".into(),
            namespace: "ferroband-system".into(),
            lease_duration: Duration::from_secs(15),
            resource_prefix: "spidernet.io".into(),
            webhook_port: 0,
        };
        review(&request.unwrap(), &settings)
    }

    fn config(annotations: Value, spec: Value) -> Value {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
            "metadata": {"name": "x", "annotations": annotations}, "spec": spec,
        })
    }

    #[test]
    fn m10_a_definition_keeps_its_name_and_m17_the_group_becomes_a_label() {
        let spec =
            json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "ippools": {"ipv4": ["p"]}}});
        let plain = config(json!({}), spec.clone());
        let named = config(json!({"multus.spidernet.io/cr-name": "y"}), spec.clone());
        assert_eq!(ask("SpiderMultusConfig", "d", named.clone(), Value::Null), AdmissionResponse::default());
        assert!(ask("SpiderMultusConfig", "d", named, plain).denied.unwrap().contains("cr-name"));
        let grouped =
            ask("SpiderMultusConfig", "d", config(json!({GROUP_ANNOTATIONS[0]: "rails"}), spec), Value::Null);
        assert_eq!(grouped.patch[0]["value"], json!({GROUP_ANNOTATIONS[0]: "rails"}));
        let bare = config(
            json!({GROUP_ANNOTATIONS[0]: "rails"}),
            json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}}),
        );
        assert!(ask("SpiderMultusConfig", "d", bare, Value::Null).denied.is_some());
    }

    #[test]
    fn c23_another_namespace_only_from_a_system_one() {
        let network = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork", "metadata": {"name": "n"},
            "spec": {"resourceName": "r", "networkNamespace": "user2"},
        });
        let refused = ask("SriovIBNetwork", "user1", network.clone(), Value::Null).denied.unwrap();
        assert!(refused.contains("ferroband-system, kube-system, spiderpool"), "{refused}");
        assert_eq!(
            ask("SriovIBNetwork", "ferroband-system", network, Value::Null),
            AdmissionResponse::default()
        );
    }

    #[test]
    fn what_cannot_be_read_passes_with_a_word() {
        let answer =
            ask("SpiderMultusConfig", "d", json!({"metadata": {}, "spec": {"cniType": 5}}), Value::Null);
        assert!(answer.denied.is_none() && answer.warnings.len() == 1, "{answer:?}");
    }
}
