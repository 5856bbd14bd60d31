//! Validates networks at admission, so that their author sees errors immediately.

use super::admission::{AdmissionRequest, AdmissionResponse};
use crate::ClusterSettings;
use crate::networks::{
    GROUP_ANNOTATIONS, NetworkSpecError, definition_name_annotation, desired_ib_network,
    desired_spider_network, validate_coordinator,
};
use ferroband_api::{
    spiderpool::{SpiderCoordinator, SpiderMultusConfig},
    sriov::SriovIBNetwork,
};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Validates a SpiderMultusConfig, SpiderCoordinator or SriovIBNetwork. Other kinds are admitted.
pub fn review(request: &AdmissionRequest, settings: &ClusterSettings) -> AdmissionResponse {
    let mut response = AdmissionResponse::default();
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let object = format!("{} {}/{name}", request.kind.kind, request.namespace);
    let result = match request.kind.kind.as_str() {
        "SpiderMultusConfig" => review_config(request, &mut response),
        "SriovIBNetwork" => review_ib_network(request, settings),
        "SpiderCoordinator" => review_coordinator(request),
        _ => return response,
    };
    match result {
        Ok(warnings) => response.warnings.extend(warnings),
        Err(NetworkReviewError::Invalid(error)) => response.denied = Some(error.fault(&object).to_string()),
        // Warn only: the object may have fields of a newer version. The controller reports the problem as well and
        // generates no network.
        Err(NetworkReviewError::Unreadable(e)) => {
            response.warnings.push(format!("{object} not validated, because it cannot be decoded: {e}"));
        }
        Err(NetworkReviewError::Renamed) => {
            let cause = "the annotation multus.spidernet.io/cr-name cannot be added, changed or removed after creation";
            let fault = Fault::new(FaultCode::InvalidConfig, object, cause, "delete and recreate the object");
            response.denied = Some(fault.to_string());
        }
    }
    response
}

enum NetworkReviewError {
    Invalid(NetworkSpecError),
    Unreadable(serde_json::Error),
    Renamed,
}

fn review_config(
    request: &AdmissionRequest,
    response: &mut AdmissionResponse,
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
    let desired = desired_spider_network(&config).map_err(NetworkReviewError::Invalid)?;
    // Copy the group annotations to labels, because Spiderpool's tools select objects by these labels.
    let labelled =
        |key: &&str| config.annotations().get(*key).filter(|value| config.labels().get(*key) != Some(value));
    let mut labels = json!(config.labels());
    let mut changed = false;
    for key in GROUP_ANNOTATIONS.iter().filter(|key| labelled(key).is_some()) {
        labels[*key] = Value::from(config.annotations()[*key].as_str());
        changed = true;
    }
    if changed {
        response.add_patch(&["metadata", "labels"], labels);
    }
    Ok(desired.warnings)
}

fn review_coordinator(request: &AdmissionRequest) -> Result<Vec<String>, NetworkReviewError> {
    let coordinator: SpiderCoordinator =
        serde_json::from_value(request.object.clone()).map_err(NetworkReviewError::Unreadable)?;
    if coordinator.metadata.deletion_timestamp.is_none() {
        validate_coordinator("spec", &coordinator.spec).map_err(NetworkReviewError::Invalid)?;
    }
    Ok(Vec::new())
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

    fn review_object(kind: &str, namespace: &str, object: Value, old: Value) -> AdmissionResponse {
        let request = serde_json::from_value(json!({
            "uid": "u", "kind": {"kind": kind}, "namespace": namespace, "object": object, "oldObject": old,
        }));
        review(&request.unwrap(), &ClusterSettings::for_test())
    }

    fn config(annotations: Value, spec: Value) -> Value {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
            "metadata": {"name": "x", "annotations": annotations}, "spec": spec,
        })
    }

    // Case: ipam M10, ipam M17
    #[test]
    fn a_definition_cannot_be_renamed_and_its_group_becomes_a_label() {
        let spec =
            json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c", "ippools": {"ipv4": ["p"]}}});
        let plain = config(json!({}), spec.clone());
        let named = config(json!({"multus.spidernet.io/cr-name": "y"}), spec.clone());
        assert_eq!(
            review_object("SpiderMultusConfig", "d", named.clone(), Value::Null),
            AdmissionResponse::default()
        );
        assert!(review_object("SpiderMultusConfig", "d", named, plain).denied.unwrap().contains("cr-name"));
        let grouped = review_object(
            "SpiderMultusConfig",
            "d",
            config(json!({GROUP_ANNOTATIONS[0]: "rails"}), spec),
            Value::Null,
        );
        assert_eq!(grouped.patch[0]["value"], json!({GROUP_ANNOTATIONS[0]: "rails"}));
        let bare = config(
            json!({GROUP_ANNOTATIONS[0]: "rails"}),
            json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}}),
        );
        assert!(review_object("SpiderMultusConfig", "d", bare, Value::Null).denied.is_some());
    }

    // Case: operator C23
    #[test]
    fn only_a_network_in_a_system_namespace_may_set_network_namespace() {
        let network = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork", "metadata": {"name": "n"},
            "spec": {"resourceName": "r", "networkNamespace": "user2"},
        });
        let message = review_object("SriovIBNetwork", "user1", network.clone(), Value::Null).denied.unwrap();
        assert!(message.contains("ferroband-system, kube-system, spiderpool"), "{message}");
        assert_eq!(
            review_object("SriovIBNetwork", "ferroband-system", network, Value::Null),
            AdmissionResponse::default()
        );
    }

    #[test]
    fn invalid_coordinator_settings_are_denied() {
        let section = json!({"resourceName": "a.b/c"});
        for (setting, value) in [("podRPFilter", json!(4)), ("podMACPrefix", json!("01:00"))] {
            let spec = json!({"cniType": "ib-sriov", "ibsriov": section, "coordinator": {setting: value}});
            let response = review_object("SpiderMultusConfig", "d", config(json!({}), spec), Value::Null);
            let message = response.denied.unwrap_or_else(|| panic!("{setting} is admitted"));
            assert!(message.contains(&format!("spec.coordinator.{setting}")), "{message}");
            let coordinator = json!({
                "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderCoordinator",
                "metadata": {"name": "default"}, "spec": {setting: value},
            });
            let response = review_object("SpiderCoordinator", "", coordinator, Value::Null);
            assert!(
                response.denied.is_some_and(|text| text.contains(&format!("spec.{setting}"))),
                "{setting}"
            );
        }
        let spec =
            json!({"cniType": "ib-sriov", "ibsriov": section, "coordinator": {"podMACPrefix": "0a:1b"}});
        let response = review_object("SpiderMultusConfig", "d", config(json!({}), spec), Value::Null);
        assert!(response.denied.is_none() && response.warnings[0].contains("podMACPrefix"), "{response:?}");
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_admitted_with_a_warning() {
        let response = review_object(
            "SpiderMultusConfig",
            "d",
            json!({"metadata": {}, "spec": {"cniType": 5}}),
            Value::Null,
        );
        assert!(response.denied.is_none() && response.warnings.len() == 1, "{response:?}");
    }
}
