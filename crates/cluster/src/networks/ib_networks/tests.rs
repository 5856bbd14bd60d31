use super::*;
use crate::ClusterSettings;
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;

const REFERENCE: &str = "SriovIBNetwork.sriovnetwork.openshift.io/ferroband-system/ib";

struct IbNetworkFixture {
    api: FakeApi,
    controller: IbNetworkController,
}

impl IbNetworkFixture {
    fn new() -> Self {
        let api = FakeApi::default();
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let caches = NetworkCaches::default();
        caches.definitions.apply(Event::InitDone);
        caches.ib_networks.apply(Event::InitDone);
        caches.namespace_groups.apply(Event::InitDone);
        for namespace in ["team", "old", "ferroband-system"] {
            caches.namespace_groups.apply(Event::Apply(((String::new(), namespace.into()), Some(None))));
        }
        Self { api, controller: IbNetworkController::new(&context, &caches) }
    }

    fn put_definition(&self, namespace: &str, name: &str, annotations: &serde_json::Value) {
        let object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": name, "namespace": namespace, "uid": "d1", "annotations": annotations},
            "spec": {"config": "{}"},
        });
        let object = serde_json::from_value(object).unwrap();
        let key = (namespace.to_owned(), name.to_owned());
        self.controller.caches.definitions.apply(Event::Apply((key, Some(object))));
    }

    fn put_network(&self, metadata: serde_json::Value) {
        self.put_network_with_conditions(metadata, &json!([]));
    }

    fn put_network_with_conditions(&self, metadata: serde_json::Value, conditions: &serde_json::Value) {
        let mut object = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
            "metadata": {"name": "ib", "namespace": "ferroband-system", "uid": "n1"},
            "spec": {"resourceName": "r", "networkNamespace": "team"}, "status": {"conditions": conditions},
        });
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let path = "/apis/sriovnetwork.openshift.io/v1/namespaces/ferroband-system/sriovibnetworks/ib";
        self.api.insert_object(path, object.clone());
        let object = serde_json::from_value(object).unwrap();
        let key = ("ferroband-system".to_owned(), "ib".to_owned());
        self.controller.caches.ib_networks.apply(Event::Apply((key, Some(object))));
    }

    async fn deletions(&self) -> Vec<String> {
        self.controller.reconcile().await.unwrap();
        self.api.list_calls().into_iter().filter(|call| call.starts_with("DELETE")).collect()
    }
}

fn path(namespace: &str, name: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions/{name}")
}

/// Annotations of a definition that Ferroband wrote as `namespace/name`.
fn written(namespace: &str, name: &str) -> serde_json::Value {
    json!({OWNER_REF: REFERENCE, "ferroband.io/generated": format!("{namespace}/{name}")})
}

#[tokio::test]
async fn a_definition_of_a_user_is_not_deleted_whatever_its_owner_reference_names() {
    let fixture = IbNetworkFixture::new();
    fixture.put_definition("team", "mine", &json!({OWNER_REF: REFERENCE}));
    // A copy of a generated definition, under another name and in another namespace.
    fixture.put_definition("team", "copy", &written("team", "ib"));
    fixture.put_definition("old", "ib", &written("team", "ib"));
    assert_eq!(fixture.deletions().await, [""; 0]);
    fixture.put_network(json!({}));
    assert_eq!(fixture.deletions().await, [""; 0], "the network exists in another namespace");
    fixture.put_network(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(fixture.deletions().await, [""; 0], "the network is being deleted");
}

#[tokio::test]
async fn a_generated_definition_is_deleted_with_its_network() {
    let fixture = IbNetworkFixture::new();
    fixture.put_definition("team", "ib", &written("team", "ib"));
    assert_eq!(fixture.deletions().await, [format!("DELETE {}", path("team", "ib"))]);

    let fixture = IbNetworkFixture::new();
    fixture.put_network(json!({}));
    fixture.put_definition("old", "ib", &written("old", "ib"));
    assert_eq!(
        fixture.deletions().await,
        [format!("DELETE {}", path("old", "ib"))],
        "the namespace has changed"
    );
}

#[tokio::test]
async fn a_definition_that_cannot_be_deleted_does_not_stop_the_others() {
    let fixture = IbNetworkFixture::new();
    fixture.put_definition("old", "ib", &written("old", "ib"));
    fixture.put_definition("team", "ib", &written("team", "ib"));
    fixture.api.reject(&path("old", "ib"), http::StatusCode::INTERNAL_SERVER_ERROR);
    fixture.controller.reconcile().await.unwrap_err();
    let deletions = fixture.api.list_calls().into_iter().filter(|call| call.starts_with("DELETE"));
    assert_eq!(deletions.count(), 2);
}

#[tokio::test]
async fn a_definition_of_the_operator_is_deleted_with_its_network() {
    let fixture = IbNetworkFixture::new();
    let annotations = json!({LAST_NAMESPACE: "team"});
    fixture.put_network(json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations}));
    fixture.put_definition("team", "ib", &json!({OWNER_REF: REFERENCE}));
    assert_eq!(fixture.deletions().await, [format!("DELETE {}", path("team", "ib"))]);

    // While the network exists, the definition becomes one that Ferroband wrote.
    let fixture = IbNetworkFixture::new();
    fixture.put_network(json!({}));
    fixture.put_definition("team", "ib", &json!({OWNER_REF: REFERENCE}));
    assert_eq!(fixture.deletions().await, [""; 0]);
    let patch = fixture.api.last_body("PATCH", &path("team", "ib"));
    assert_eq!(patch["metadata"]["annotations"]["ferroband.io/generated"], "team/ib", "{patch}");
}

#[tokio::test]
async fn the_condition_is_written_on_change_and_keeps_its_time_while_the_status_is_the_same() {
    let fixture = IbNetworkFixture::new();
    let status = "/apis/sriovnetwork.openshift.io/v1/namespaces/ferroband-system/sriovibnetworks/ib/status";
    let writes = || fixture.api.list_calls().iter().filter(|call| call.ends_with(status)).count();
    let written = || fixture.api.last_body("PATCH", status)["status"]["conditions"][0].clone();
    let team = || (String::new(), "team".to_owned());
    fixture.controller.caches.namespace_groups.apply(Event::Delete((team(), None)));
    fixture.put_network(json!({}));
    fixture.controller.reconcile().await.unwrap();
    let mut first = written();
    assert_eq!(
        (first["status"].as_str(), first["reason"].as_str()),
        (Some("False"), Some("NamespaceNotFound"))
    );
    first["lastTransitionTime"] = json!("1970-01-01T00:00:00Z");
    fixture.put_network_with_conditions(json!({}), &json!([first]));
    fixture.controller.reconcile().await.unwrap();
    assert_eq!(writes(), 1, "the condition is current");
    first["reason"] = json!("NetworkAttachmentDefinitionInvalid");
    fixture.put_network_with_conditions(json!({}), &json!([first]));
    fixture.controller.reconcile().await.unwrap();
    assert_eq!((writes(), &written()["lastTransitionTime"]), (2, &first["lastTransitionTime"]));
    fixture.controller.caches.namespace_groups.apply(Event::Apply((team(), Some(None))));
    fixture.controller.reconcile().await.unwrap();
    let ready = written();
    assert_eq!((writes(), ready["status"].as_str()), (3, Some("True")));
    assert_ne!(ready["lastTransitionTime"], first["lastTransitionTime"]);
}
