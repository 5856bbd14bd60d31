//! What a pod lacks to get the networks it names.

use super::admission::{AdmissionRequest, AdmissionResponse};
use super::context::WebhookContext;
use super::natural_sort::natural_cmp;
use crate::networks::{GROUP_ANNOTATIONS, GroupNetwork, ResourceRequest};
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS, NetworkSelection};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// Where the default network's definition is looked for, if its annotation names no namespace; as with Multus.
const DEFAULT_NAMESPACE: &str = "kube-system";

/// Fill in a pod.
pub async fn inject(request: &AdmissionRequest, world: &WebhookContext) -> AdmissionResponse {
    let mut answer = AdmissionResponse::default();
    let pod = &request.object;
    if pod["spec"]["hostNetwork"] == true {
        return answer;
    }
    let own = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let text = |key: &str| own.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let said = GROUP_ANNOTATIONS.into_iter().find_map(|key| Some((key, text(key)?.to_owned())));
    let mut known: HashMap<(String, String), Option<ResourceRequest>> = HashMap::new();
    let mut networks = text(NETWORKS).unwrap_or_default().to_owned();

    if let Some((key, value)) = said.or_else(|| world.namespace_group(&request.namespace)) {
        let mut members = match world.group_networks(key, &value) {
            Ok(members) if members.is_empty() => {
                answer.denied = Some(format!(
                    "{key}: no SpiderMultusConfig is in the group {value:?}; annotate those meant with it, or correct the annotation"
                ));
                return answer;
            }
            Ok(members) => members,
            Err((object, refused)) => {
                answer.denied = Some(format!("{key}: {value:?}: {}", refused.fault(&object)));
                return answer;
            }
        };
        members.sort_by(|a, b| natural_cmp(&qualified_name(a), &qualified_name(b)));
        match append_networks(&networks, &request.namespace, &members) {
            Ok(Some(longer)) => {
                let mut annotations = own.clone();
                annotations.insert(NETWORKS.to_owned(), json!(longer));
                answer.add_patch(&["metadata", "annotations"], annotations.into());
                networks = longer;
            }
            Ok(None) => {}
            Err(e) => answer.warnings.push(e.to_string()),
        }
        known.extend(members.into_iter().map(|member| ((member.namespace, member.name), member.request)));
    }

    let mut wanted = Vec::new();
    match NetworkSelection::parse_networks(&networks, &request.namespace) {
        Ok(selections) => wanted.extend(selections),
        // The pod is told when it is attached, too.
        Err(e) => answer.warnings.push(e.to_string()),
    }
    match NetworkSelection::parse_default_network(
        text(DEFAULT_NETWORK).unwrap_or_default(),
        DEFAULT_NAMESPACE,
    ) {
        Ok(selection) => wanted.extend(selection),
        Err(e) => answer.warnings.push(e.to_string()),
    }
    let mut needs = Vec::new();
    for selection in wanted {
        let key = (selection.namespace.clone(), selection.name.clone());
        let need = match known.get(&key) {
            Some(need) => Some(need.clone()),
            None => world.resource_request(&key.0, &key.1).await,
        };
        match &need {
            Some(need) => needs.extend(need.clone()),
            None => answer.warnings.push(format!(
                "network {} is not defined; if it needs a resource, recreate the pod once it is",
                selection.display_name()
            )),
        }
        known.insert(key, need.flatten());
    }
    request_resources(pod, &count_resources(&needs), &mut answer);
    answer
}

fn qualified_name(member: &GroupNetwork) -> String {
    format!("{}/{}", member.namespace, member.name)
}

/// The annotation with the members that it does not name yet, in the form it is written in; `None` if it names all.
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
    // As Selection tells them apart.
    if networks.contains(['[', '{', '"']) {
        let mut list: Vec<Value> = serde_json::from_str(networks).unwrap_or_default();
        list.extend(new.iter().map(|member| json!({"name": member.name, "namespace": member.namespace})));
        return Ok(Some(Value::from(list).to_string()));
    }
    let before = Some(networks.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
    let names = before.into_iter().chain(new.into_iter().map(qualified_name));
    Ok(Some(names.collect::<Vec<_>>().join(",")))
}

/// How many of each resource the networks need together.
fn count_resources(needs: &[ResourceRequest]) -> BTreeMap<&str, u32> {
    let mut counted = BTreeMap::new();
    for need in needs {
        let number = counted.entry(need.resource.as_str()).or_insert(0);
        *number = if need.shared { 1.max(*number) } else { *number + 1 };
    }
    counted
}

/// Ask for what no container asks for, in the first container. What somebody wrote stays as it is.
fn request_resources(pod: &Value, needed: &BTreeMap<&str, u32>, answer: &mut AdmissionResponse) {
    let list = |key: &str| pod["spec"][key].as_array().cloned().unwrap_or_default();
    let containers = list("containers");
    let Some(first) = containers.first() else { return };
    let mut resources = first["resources"].as_object().cloned().unwrap_or_default();
    let mut asked = false;
    for (resource, number) in needed {
        let written: Vec<u32> = containers
            .iter()
            .chain(&list("initContainers"))
            .filter_map(|container| requested_amount(container, resource))
            .collect();
        if written.is_empty() {
            for key in ["limits", "requests"] {
                let amounts = resources.entry(key).or_insert_with(|| Map::new().into());
                amounts[*resource] = json!(number.to_string());
            }
            asked = true;
        } else if written.iter().sum::<u32>() < *number {
            answer.warnings.push(format!(
                "the networks of the pod need {number} of {resource}, and its containers ask for {}: ask for {number}, or for none at all",
                written.iter().sum::<u32>()
            ));
        }
    }
    if asked {
        answer.add_patch(&["spec", "containers", "0", "resources"], resources.into());
    }
}

/// How much of a resource a container asks for, if it does. Extended resources are whole numbers.
fn requested_amount(container: &Value, resource: &str) -> Option<u32> {
    let resources = &container["resources"];
    let written = resources["limits"].get(resource).or_else(|| resources["requests"].get(resource))?;
    let number = written.as_u64().or_else(|| written.as_str()?.parse().ok());
    Some(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX / 1024))
}

#[cfg(test)]
mod tests;
