//! Adds networks and device resources to pods.

use super::admission::{AdmissionRequest, AdmissionResponse};
use super::annotation_keys::mistyped_key_warning;
use super::context::WebhookContext;
use super::natural_sort::natural_cmp;
use crate::networks::{GROUP_ANNOTATIONS, GroupNetwork, ResourceRequest};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use ferroband_model::ResourceName;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// Namespace of a network that the annotation v1.multus-cni.io/default-network names without a namespace, as
/// in Multus.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Adds to a pod the networks of its group, and requests for the device resources that all its networks need.
pub async fn inject(request: &AdmissionRequest, context: &WebhookContext) -> AdmissionResponse {
    let mut response = AdmissionResponse::default();
    let pod = &request.object;
    if pod["spec"]["hostNetwork"] == true {
        return response;
    }
    let pod_annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let text = |key: &str| pod_annotations.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let pod_group = GROUP_ANNOTATIONS.into_iter().find_map(|key| Some((key, text(key)?.to_owned())));
    response.warnings.extend(pod_annotations.keys().filter_map(|key| mistyped_key_warning(key)));
    let mut known_requests: HashMap<(String, String), Option<ResourceRequest>> = HashMap::new();
    let mut networks = text(NETWORKS).unwrap_or_default().to_owned();

    if let Some((key, value)) = pod_group.or_else(|| context.namespace_group(&request.namespace)) {
        let mut members = match context.group_networks(&request.namespace, (key, &value)) {
            Ok(members) if members.is_empty() => {
                response.denied = Some(format!(
                    "no SpiderMultusConfig in namespace {} or in a trusted namespace ({}) has the annotation {key}: {value:?}; add it to the SpiderMultusConfigs of this group, or correct the group of the pod or its namespace",
                    request.namespace,
                    context.settings().trusted_namespaces().join(", ")
                ));
                return response;
            }
            Ok(members) => members,
            Err((object, error)) => {
                response.denied =
                    Some(format!("the network group {key}: {value:?} is invalid: {}", error.fault(&object)));
                return response;
            }
        };
        members.sort_by(|a, b| natural_cmp(&qualified_name(a), &qualified_name(b)));
        match append_networks(&networks, &request.namespace, &members) {
            Ok(Some(extended)) => {
                let mut annotations = pod_annotations.clone();
                annotations.insert(NETWORKS.to_owned(), json!(extended));
                response.add_patch(&["metadata", "annotations"], annotations.into());
                networks = extended;
            }
            Ok(None) => {}
            Err(e) => response.warnings.push(e.to_string()),
        }
        known_requests
            .extend(members.into_iter().map(|member| ((member.namespace, member.name), member.request)));
    }

    let mut selected = Vec::new();
    match NetworkSelection::parse_networks(&networks, &request.namespace) {
        Ok(selections) => {
            // Checked before the networks are looked up, one by one.
            if let Err(fault) = context.settings().tenants.check_network_count(NETWORKS, selections.len()) {
                return AdmissionResponse { denied: Some(fault.to_string()), ..AdmissionResponse::default() };
            }
            selected.extend(selections);
        }
        // Warn only: the annotation is parsed again when the pod is attached, and the error is then reported in an
        // event.
        Err(e) => response.warnings.push(e.to_string()),
    }
    match NetworkSelection::parse_default_network(
        text(DEFAULT_NETWORK).unwrap_or_default(),
        DEFAULT_NAMESPACE,
    ) {
        Ok(selection) => selected.extend(selection),
        Err(e) => response.warnings.push(e.to_string()),
    }
    let mut resource_requests = Vec::new();
    for selection in selected {
        let key = (selection.namespace.clone(), selection.name.clone());
        let resource_request = match known_requests.get(&key) {
            Some(resource_request) => Some(resource_request.clone()),
            None => context.resource_request(&key.0, &key.1).await,
        };
        match &resource_request {
            Some(Some(request)) if is_extended_resource(&request.resource) => {
                resource_requests.push(request.clone());
            }
            // The name may be that of a resource claim template, through which the pod gets the device.
            Some(Some(_)) if has_resource_claims(pod) => {}
            Some(Some(request)) => response.warnings.push(format!(
                "resourceName {:?} of network {} is not the name of an extended resource (prefix/name), so no device is requested; correct the annotation k8s.v1.cni.cncf.io/resourceName of the network, or add a resource claim to the pod",
                request.resource,
                selection.display_name()
            )),
            Some(None) => {}
            None => response.warnings.push(format!(
                "network {} does not exist; if the network needs a device resource, create the network and then recreate the pod",
                selection.display_name()
            )),
        }
        known_requests.insert(key, resource_request.flatten());
    }
    request_resources(pod, &count_resources(&resource_requests), &mut response);
    response
}

/// Whether the API server accepts the name in the limits of a container as an extended resource. A name without a
/// prefix or with the prefix `kubernetes.io` is a native resource (`IsNativeResource` in pkg/apis/core/helper).
fn is_extended_resource(name: &str) -> bool {
    name.parse::<ResourceName>().is_ok() && !name.contains("kubernetes.io/")
}

fn has_resource_claims(pod: &Value) -> bool {
    pod["spec"]["resourceClaims"].as_array().is_some_and(|claims| !claims.is_empty())
}

fn qualified_name(member: &GroupNetwork) -> String {
    format!("{}/{}", member.namespace, member.name)
}

/// Appends to the networks annotation those `members` that it does not list yet, in the annotation's format
/// (JSON or a list of names). Returns `None` if it already lists all of them.
fn append_networks(
    networks: &str,
    namespace: &str,
    members: &[GroupNetwork],
) -> Result<Option<String>, ferroband_api::Error> {
    let named = NetworkSelection::parse_networks(networks, namespace)?;
    let is_new = |member: &&GroupNetwork| {
        !named.iter().any(|named| (&named.namespace, &named.name) == (&member.namespace, &member.name))
    };
    let new: Vec<_> = members.iter().filter(is_new).collect();
    if new.is_empty() {
        return Ok(None);
    }
    // The annotation is in JSON format if it contains one of these characters. `NetworkSelection` decides the
    // same way.
    if networks.contains(['[', '{', '"']) {
        let mut list: Vec<Value> = serde_json::from_str(networks).unwrap_or_default();
        list.extend(new.iter().map(|member| json!({"name": member.name, "namespace": member.namespace})));
        return Ok(Some(Value::from(list).to_string()));
    }
    let before = Some(networks.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    let names = before.into_iter().chain(new.into_iter().map(qualified_name));
    Ok(Some(names.collect::<Vec<_>>().join(",")))
}

/// Returns how many units of each resource the networks need together. A shared resource is counted once.
fn count_resources(resource_requests: &[ResourceRequest]) -> BTreeMap<&str, u32> {
    let mut counted = BTreeMap::new();
    for resource_request in resource_requests {
        let number = counted.entry(resource_request.resource.as_str()).or_insert(0);
        *number = if resource_request.shared { 1.max(*number) } else { *number + 1 };
    }
    counted
}

/// Adds requests for missing resources to the first container. Existing requests are not changed. Nothing is added
/// to a container that the API server rejects, because its resources are not objects.
fn request_resources(pod: &Value, needed: &BTreeMap<&str, u32>, response: &mut AdmissionResponse) {
    let list = |key: &str| pod["spec"][key].as_array().cloned().unwrap_or_default();
    let containers = list("containers");
    let Some(first) = containers.first() else { return };
    let Some(mut resources) = object_or_empty(first.get("resources")) else { return };
    let Some(mut amounts) = ["limits", "requests"]
        .map(|key| Some((key, object_or_empty(resources.get(key))?)))
        .into_iter()
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let mut added = false;
    for (resource, number) in needed {
        let requested: Vec<u64> = containers
            .iter()
            .chain(&list("initContainers"))
            .filter_map(|container| requested_amount(container, resource))
            .collect();
        if requested.is_empty() {
            for (_, amounts) in &mut amounts {
                amounts.insert((*resource).to_owned(), json!(number.to_string()));
            }
            added = true;
        } else if requested.iter().sum::<u64>() < u64::from(*number) {
            response.warnings.push(format!(
                "the networks of the pod need {number} of {resource}, but its containers request {}; request {number}, or remove the request to have it added automatically",
                requested.iter().sum::<u64>()
            ));
        }
    }
    if added {
        resources.extend(amounts.into_iter().map(|(key, amounts)| (key.to_owned(), amounts.into())));
        response.add_patch(&["spec", "containers", "0", "resources"], resources.into());
    }
}

/// Returns a copy of the object, an empty object if it is absent or `null`, and `None` if it is no object.
fn object_or_empty(value: Option<&Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(value) => value.as_object().cloned(),
    }
}

/// Returns the amount of an extended resource, an integer, in the limits or requests of a container. An amount that
/// cannot be read counts as enough.
fn requested_amount(container: &Value, resource: &str) -> Option<u64> {
    let resources = &container["resources"];
    let requested = resources["limits"].get(resource).or_else(|| resources["requests"].get(resource))?;
    let number = requested.as_u64().or_else(|| requested.as_str()?.parse().ok());
    Some(u64::from(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests;
