//! The MutatingWebhookConfiguration: which objects the API server sends to the webhook, under which address,
//! and which certificates it trusts.

use super::{NAME, annotation_keys::CHECKED_PREFIXES};
use crate::networks::GROUP_ANNOTATIONS;
use serde_json::{Value, json};

/// Returns the field `webhooks` of the MutatingWebhookConfiguration. `grouped` are the namespaces whose
/// annotation assigns a network group to their pods.
pub fn webhooks(namespace: &str, ca_bundle: &str, grouped: &[String]) -> Value {
    let mut all = vec![
        webhook(
            namespace,
            ca_bundle,
            "pods",
            json!({
                "name": "pods.ferroband.io",
                "rules": [pod_rule()],
                // Pods that do not match are created without calling the webhook.
                "matchConditions": [{"name": "names-networks", "expression": names_networks_expression()}],
                // Call this webhook again if a later webhook changes the pod, because the change may add
                // networks.
                "reinvocationPolicy": "IfNeeded",
            }),
        ),
        webhook(
            namespace,
            ca_bundle,
            "networks",
            json!({
                "name": "networks.ferroband.io",
                "rules": [
                    rule("spiderpool.spidernet.io", "v2beta1", "spidermultusconfigs", &["CREATE", "UPDATE"]),
                    rule("spiderpool.spidernet.io", "v2beta1", "spidercoordinators", &["CREATE", "UPDATE"]),
                    rule("sriovnetwork.openshift.io", "v1", "sriovibnetworks", &["CREATE", "UPDATE"]),
                ],
            }),
        ),
        webhook(
            namespace,
            ca_bundle,
            "pools",
            json!({
                "name": "pools.ferroband.io",
                "rules": [rule("spiderpool.spidernet.io", "v2beta1", "spiderippools", &["CREATE", "UPDATE"])],
            }),
        ),
    ];
    if !grouped.is_empty() {
        let names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": grouped});
        all.push(webhook(namespace, ca_bundle, "pods", json!({
            "name": "namespaces.ferroband.io",
            "rules": [pod_rule()],
            // A match condition cannot read the annotations of a namespace, so the namespaces are listed by
            // name.
            "namespaceSelector": {"matchExpressions": [names]},
            "matchConditions": [{"name": "names-no-networks", "expression": format!("!({})", names_networks_expression())}],
            "reinvocationPolicy": "IfNeeded",
        })));
    }
    all.into()
}

fn webhook(namespace: &str, ca_bundle: &str, path: &str, mut webhook: Value) -> Value {
    use k8s_openapi::ByteString;
    let service = json!({"name": NAME, "namespace": namespace, "path": format!("/{path}"), "port": 443});
    webhook["clientConfig"] =
        json!({"service": service, "caBundle": ByteString(ca_bundle.as_bytes().to_vec())});
    webhook["admissionReviewVersions"] = json!(["v1"]);
    webhook["sideEffects"] = json!("None");
    // While the webhook is down, objects are admitted unchanged.
    webhook["failurePolicy"] = json!("Ignore");
    webhook["timeoutSeconds"] = json!(5);
    webhook
}

fn pod_rule() -> Value {
    rule("", "v1", "pods", &["CREATE"])
}

fn rule(group: &str, version: &str, resource: &str, operations: &[&str]) -> Value {
    json!({
        "apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": operations, "scope": "*",
    })
}

fn names_networks_expression() -> String {
    // The prefixes include those of the networks annotations, and of mistyped ones, which get a warning.
    let prefixes = CHECKED_PREFIXES.map(|(prefix, _)| format!("key.contains('{prefix}')"));
    let groups = GROUP_ANNOTATIONS.map(|key| format!("key == '{key}'"));
    format!(
        "has(object.metadata.annotations) && object.metadata.annotations.exists(key, {} || {})",
        prefixes.join(" || "),
        groups.join(" || ")
    )
}

/// Whether `actual` contains everything in `desired`; additional defaults of the API server are ignored.
pub fn contains_all(actual: &Value, desired: &Value) -> bool {
    match (actual, desired) {
        (Value::Object(actual), Value::Object(desired)) => desired
            .iter()
            .all(|(key, value)| actual.get(key).is_some_and(|actual| contains_all(actual, value))),
        (Value::Array(actual), Value::Array(desired)) => {
            actual.len() == desired.len()
                && actual.iter().zip(desired).all(|(actual, desired)| contains_all(actual, desired))
        }
        _ => actual == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam M23
    #[test]
    fn only_pods_with_networks_are_sent_and_a_webhook_failure_is_ignored() {
        let all = webhooks("ferroband-system", "pem", &[]);
        let all = all.as_array().unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|one| one["failurePolicy"] == "Ignore"));
        let condition = all[0]["matchConditions"][0]["expression"].as_str().unwrap();
        assert!(condition.contains("key.contains('multus-cni.io/')"), "{condition}");
        assert_eq!(all[0]["clientConfig"]["caBundle"], "cGVt");
        let grouped = webhooks("n", "pem", &["rails".to_owned()]);
        assert_eq!(grouped[3]["namespaceSelector"]["matchExpressions"][0]["values"], json!(["rails"]));
    }

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let desired = webhooks("n", "pem", &[]);
        let mut actual = desired.clone();
        actual[0]["matchPolicy"] = json!("Equivalent");
        assert!(contains_all(&actual, &desired));
        actual[0]["failurePolicy"] = json!("Fail");
        assert!(
            !contains_all(&actual, &desired)
                && !contains_all(&webhooks("n", "pem", &["a".to_owned()]), &desired)
        );
    }
}
