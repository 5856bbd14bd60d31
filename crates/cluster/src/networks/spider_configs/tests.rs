use super::*;
use crate::ClusterSettings;
use ferroband_testbed::fake_api::FakeApi;
use http::StatusCode;
use kube::runtime::watcher::Event;
use serde_json::json;

fn definitions(namespace: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions")
}

// A failed pass is repeated with growing pauses, in which no other config would be reconciled.
#[tokio::test]
async fn a_definition_that_the_api_server_rejects_does_not_fail_the_pass() {
    let (api, caches) = (FakeApi::default(), NetworkCaches::default());
    for namespace in ["evil", "good"] {
        let config = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderMultusConfig",
            "metadata": {"name": "x", "namespace": namespace, "uid": namespace},
            "spec": {"cniType": "custom", "customCNI": "{\"type\":\"bridge\"}"},
        });
        let key = (namespace.to_owned(), "x".to_owned());
        caches.spider_configs.apply(Event::Apply((key, Some(serde_json::from_value(config).unwrap()))));
    }
    api.reject(&definitions("evil"), StatusCode::FORBIDDEN);
    let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
    let controller = SpiderConfigController::new(&context, &caches);
    assert_eq!(controller.reconcile().await.unwrap(), None);
    let calls = api.list_calls();
    assert!(calls.contains(&format!("POST {}", definitions("good"))), "{calls:?}");
    let event = calls.iter().any(|call| call.starts_with("POST") && call.contains("/namespaces/evil/events"));
    assert!(event, "the author is told: {calls:?}");

    api.reject(&definitions("evil"), StatusCode::INTERNAL_SERVER_ERROR);
    controller.reconcile().await.unwrap_err();
}
