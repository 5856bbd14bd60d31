use super::*;
use crate::ClusterSettings;
use ferroband_daemon::{Trigger, run_controller};
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;
use tokio::time::sleep;

const PATH: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/ferroband-webhook";

/// Runs the controller with a valid certificate and without a webhook configuration.
fn start_without_configuration() -> (FakeApi, WebhookObjects, Trigger) {
    let api = FakeApi::default();
    let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
    let (caches, objects) = (NetworkCaches::default(), WebhookObjects::default());
    caches.namespace_groups.apply(Event::InitDone);
    objects.configuration.apply(Event::InitDone);
    let mut secret = Secret::default();
    WebhookCertificate::generate("a.b.svc", None, Timestamp::now()).unwrap().write_to(&mut secret);
    objects.secret.apply(Event::InitDone);
    objects.secret.apply(Event::Apply((("ferroband-system".into(), NAME.into()), Some(secret))));
    let trigger = Trigger::default();
    tokio::spawn(run_controller(CertRotation::new(&context, &caches, &objects), trigger.clone()));
    (api, objects, trigger)
}

fn patches(api: &FakeApi) -> usize {
    api.list_calls().iter().filter(|call| **call == format!("PATCH {PATH}")).count()
}

#[tokio::test(start_paused = true)]
async fn a_deleted_webhook_configuration_is_restored() {
    let (api, objects, trigger) = start_without_configuration();
    // The uninstallation deletes the configuration before the daemon. It must not come back then.
    sleep(Duration::from_secs(50)).await;
    assert_eq!(patches(&api), 0);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(patches(&api), 1);
    let written = api.last_body("PATCH", PATH);
    assert_eq!(written["metadata"]["labels"]["app.kubernetes.io/name"], "ferroband", "{written}");
    assert_eq!(written["webhooks"][0]["name"], "pods.ferroband.io", "{written}");

    // It is deleted again after it was there for a while: the delay starts again.
    let key = || (String::new(), NAME.to_owned());
    objects.configuration.apply(Event::Apply((key(), Some(written["webhooks"].clone()))));
    trigger.fire();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(patches(&api), 1);
    objects.configuration.apply(Event::Apply((key(), None)));
    trigger.fire();
    sleep(Duration::from_secs(50)).await;
    assert_eq!(patches(&api), 1);
    sleep(Duration::from_secs(15)).await;
    assert_eq!(patches(&api), 2);
}
