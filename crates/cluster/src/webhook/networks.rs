//! Networks, looked at before they are stored: what is wrong is said while its author is there to hear it.

use super::review::{Answer, Request};
use crate::Settings;
use crate::networks::{GROUPS, Refused, called, config_wanted, ib_wanted};
use ferroband_api::{spiderpool::SpiderMultusConfig, sriov::SriovIBNetwork};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use serde_json::{Value, json};

/// Look at a network.
pub fn review(request: &Request, settings: &Settings) -> Answer {
    let mut answer = Answer::default();
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let object = format!("{} {}/{name}", request.kind.kind, request.namespace);
    let result = match request.kind.kind.as_str() {
        "SpiderMultusConfig" => config(request, &mut answer),
        "SriovIBNetwork" => ib_network(request, settings),
        _ => return answer,
    };
    match result {
        Ok(warnings) => answer.warnings.extend(warnings),
        Err(Wrong::Refused(refused)) => answer.refused = Some(refused.fault(&object).to_string()),
        // Newer fields of theirs, perhaps: the reconciler says so as well, and nothing comes of it.
        Err(Wrong::Unreadable(e)) => answer.warnings.push(format!("{object} cannot be read: {e}")),
        Err(Wrong::Renamed) => {
            let cause = "the annotation multus.spidernet.io/cr-name cannot be changed or added later";
            let fault = Fault::new(FaultCode::InvalidConfig, object, cause, "create the object anew");
            answer.refused = Some(fault.to_string());
        }
    }
    answer
}

enum Wrong {
    Refused(Refused),
    Unreadable(serde_json::Error),
    Renamed,
}

fn config(request: &Request, answer: &mut Answer) -> Result<Vec<String>, Wrong> {
    let mut config: SpiderMultusConfig =
        serde_json::from_value(request.object.clone()).map_err(Wrong::Unreadable)?;
    config.metadata.namespace = Some(request.namespace.clone());
    if config.metadata.deletion_timestamp.is_some() {
        return Ok(Vec::new());
    }
    if let Ok(before) = serde_json::from_value::<SpiderMultusConfig>(request.old_object.clone())
        && called(&before) != called(&config)
    {
        return Err(Wrong::Renamed);
    }
    let wanted = config_wanted(&config).map_err(Wrong::Refused)?;
    // The labels that Spiderpool's own tools look for.
    let labelled =
        |key: &&str| config.annotations().get(*key).filter(|value| config.labels().get(*key) != Some(value));
    let mut labels = json!(config.labels());
    let mut changed = false;
    for key in GROUPS.iter().filter(|key| labelled(key).is_some()) {
        labels[*key] = Value::from(config.annotations()[*key].as_str());
        changed = true;
    }
    if changed {
        answer.put(&["metadata", "labels"], labels);
    }
    Ok(wanted.warnings)
}

fn ib_network(request: &Request, settings: &Settings) -> Result<Vec<String>, Wrong> {
    let mut network: SriovIBNetwork =
        serde_json::from_value(request.object.clone()).map_err(Wrong::Unreadable)?;
    network.metadata.namespace = Some(request.namespace.clone());
    if network.metadata.deletion_timestamp.is_some() {
        return Ok(Vec::new());
    }
    Ok(ib_wanted(&network, settings).map_err(Wrong::Refused)?.warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ask(kind: &str, namespace: &str, object: Value, old: Value) -> Answer {
        let request = serde_json::from_value(json!({
            "uid": "u", "kind": {"kind": kind}, "namespace": namespace, "object": object, "oldObject": old,
        }));
        let settings = Settings {
            identity: "a".into(),
            namespace: "ferroband-system".into(),
            lease: Duration::from_secs(15),
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
        assert_eq!(ask("SpiderMultusConfig", "d", named.clone(), Value::Null), Answer::default());
        assert!(ask("SpiderMultusConfig", "d", named, plain).refused.unwrap().contains("cr-name"));
        let grouped = ask("SpiderMultusConfig", "d", config(json!({GROUPS[0]: "rails"}), spec), Value::Null);
        assert_eq!(grouped.patch[0]["value"], json!({GROUPS[0]: "rails"}));
        let bare = config(
            json!({GROUPS[0]: "rails"}),
            json!({"cniType": "ib-sriov", "ibsriov": {"resourceName": "a.b/c"}}),
        );
        assert!(ask("SpiderMultusConfig", "d", bare, Value::Null).refused.is_some());
    }

    #[test]
    fn c23_another_namespace_only_from_a_system_one() {
        let network = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork", "metadata": {"name": "n"},
            "spec": {"resourceName": "r", "networkNamespace": "user2"},
        });
        let refused = ask("SriovIBNetwork", "user1", network.clone(), Value::Null).refused.unwrap();
        assert!(refused.contains("ferroband-system, kube-system, spiderpool"), "{refused}");
        assert_eq!(ask("SriovIBNetwork", "ferroband-system", network, Value::Null), Answer::default());
    }

    #[test]
    fn what_cannot_be_read_passes_with_a_word() {
        let answer =
            ask("SpiderMultusConfig", "d", json!({"metadata": {}, "spec": {"cniType": 5}}), Value::Null);
        assert!(answer.refused.is_none() && answer.warnings.len() == 1, "{answer:?}");
    }
}
