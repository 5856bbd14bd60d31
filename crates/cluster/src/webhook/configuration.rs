//! What the API server is told: which objects to send, where to, and whom to trust.

use super::NAME;
use crate::networks::GROUP_ANNOTATIONS;
use ferroband_api::annotation::{DEFAULT_NETWORK, NETWORKS};
use serde_json::{Value, json};

/// The webhooks. `grouped` are the namespaces whose pods get a group of networks without saying so themselves.
pub fn webhooks(namespace: &str, trusted: &str, grouped: &[String]) -> Value {
    let mut all = vec![
        webhook(
            namespace,
            trusted,
            "pods",
            json!({
                "name": "pods.ferroband.io",
                "rules": [pod_rule()],
                // Every other pod starts without asking us.
                "matchConditions": [{"name": "names-networks", "expression": names_networks_expression()}],
                // Somebody else's webhook may name networks.
                "reinvocationPolicy": "IfNeeded",
            }),
        ),
        webhook(
            namespace,
            trusted,
            "networks",
            json!({
                "name": "networks.ferroband.io",
                "rules": [
                    rule("spiderpool.spidernet.io", "v2beta1", "spidermultusconfigs", &["CREATE", "UPDATE"]),
                    rule("sriovnetwork.openshift.io", "v1", "sriovibnetworks", &["CREATE", "UPDATE"]),
                ],
            }),
        ),
        webhook(
            namespace,
            trusted,
            "pools",
            json!({
                "name": "pools.ferroband.io",
                "rules": [rule("spiderpool.spidernet.io", "v2beta1", "spiderippools", &["CREATE", "UPDATE"])],
            }),
        ),
    ];
    if !grouped.is_empty() {
        let names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": grouped});
        all.push(webhook(namespace, trusted, "pods", json!({
            "name": "namespaces.ferroband.io",
            "rules": [pod_rule()],
            // A condition cannot see the namespace's annotations, so the namespaces are named.
            "namespaceSelector": {"matchExpressions": [names]},
            "matchConditions": [{"name": "names-no-networks", "expression": format!("!({})", names_networks_expression())}],
            "reinvocationPolicy": "IfNeeded",
        })));
    }
    all.into()
}

fn webhook(namespace: &str, trusted: &str, path: &str, mut webhook: Value) -> Value {
    use k8s_openapi::ByteString;
    let service = json!({"name": NAME, "namespace": namespace, "path": format!("/{path}"), "port": 443});
    webhook["clientConfig"] =
        json!({"service": service, "caBundle": ByteString(trusted.as_bytes().to_vec())});
    webhook["admissionReviewVersions"] = json!(["v1"]);
    webhook["sideEffects"] = json!("None");
    // Nobody waits for us to come back.
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
    let keys: Vec<_> = [NETWORKS, DEFAULT_NETWORK]
        .into_iter()
        .chain(GROUP_ANNOTATIONS)
        .map(|key| format!("'{key}'"))
        .collect();
    format!(
        "has(object.metadata.annotations) && [{}].exists(key, key in object.metadata.annotations)",
        keys.join(", ")
    )
}

/// Whether `there` says what `wanted` says, whatever the API server has filled in besides.
pub fn contains_all(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| contains_all(there, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| contains_all(there, wanted))
        }
        _ => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m23_only_pods_that_name_networks_are_sent_and_nobody_waits() {
        let all = webhooks("ferroband-system", "pem", &[]);
        let all = all.as_array().unwrap();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|one| one["failurePolicy"] == "Ignore"));
        let condition = all[0]["matchConditions"][0]["expression"].as_str().unwrap();
        assert!(condition.contains("'v1.multus-cni.io/default-network'"), "{condition}");
        assert_eq!(all[0]["clientConfig"]["caBundle"], "cGVt");
        let grouped = webhooks("n", "pem", &["rails".to_owned()]);
        assert_eq!(grouped[3]["namespaceSelector"]["matchExpressions"][0]["values"], json!(["rails"]));
    }

    #[test]
    fn what_the_api_server_fills_in_is_no_difference() {
        let wanted = webhooks("n", "pem", &[]);
        let mut there = wanted.clone();
        there[0]["matchPolicy"] = json!("Equivalent");
        assert!(contains_all(&there, &wanted));
        there[0]["failurePolicy"] = json!("Fail");
        assert!(
            !contains_all(&there, &wanted)
                && !contains_all(&webhooks("n", "pem", &["a".to_owned()]), &wanted)
        );
    }
}
