//! Events about API objects.

use crate::{api_call::with_timeout, error_chain};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::debug;

/// How long a note is remembered after its last event; a little longer than kube's recorder does.
const RETENTION: Duration = Duration::from_secs(7 * 60);

/// Publishes events in the name of a daemon. Clones count repeated events together.
#[derive(Clone)]
pub struct EventPublisher {
    client: Client,
    reporter: Reporter,
    /// One recorder for each note and when it was last used. A recorder takes events of the same reason about the same
    /// object for repetitions, and would drop all notes but the first.
    recorders: Arc<Mutex<HashMap<String, (Recorder, Instant)>>>,
}

impl EventPublisher {
    /// `daemon` and `instance` (its pod) are shown as the source of the events.
    pub fn new(client: Client, daemon: &str, instance: &str) -> Self {
        let reporter = Reporter { controller: daemon.to_owned(), instance: Some(instance.to_owned()) };
        Self { client, reporter, recorders: Arc::default() }
    }

    /// Publishes an event about `object`. If the same event is published again, its count is incremented. Errors are
    /// only logged.
    pub async fn publish<K>(&self, object: &K, kind: EventType, reason: &str, note: String)
    where
        K: Resource<DynamicType = ()>,
    {
        let recorder = self.recorder(&note);
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(e) = with_timeout(recorder.publish(&event, &object.object_ref(&()))).await {
            debug!(error = %error_chain(&e), "cannot publish event");
        }
    }

    fn recorder(&self, note: &str) -> Recorder {
        let (mut recorders, now) = (self.recorders.lock(), Instant::now());
        recorders.retain(|_, (_, used)| now.duration_since(*used) < RETENTION);
        let new = || (Recorder::new(self.client.clone(), self.reporter.clone()), now);
        let (recorder, used) = recorders.entry(note.to_owned()).or_insert_with(new);
        *used = now;
        recorder.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_testbed::fake_api::FakeApi;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    #[tokio::test]
    async fn an_event_is_repeated_only_if_its_note_is_the_same() {
        let api = FakeApi::default();
        let metadata = ObjectMeta {
            name: Some("a".into()),
            namespace: Some("n".into()),
            uid: Some("u".into()),
            ..ObjectMeta::default()
        };
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        let publisher = EventPublisher::new(api.client(), "ferroband-test", "p");
        for note in ["one", "two", "one"] {
            publisher.publish(&object, EventType::Normal, "Tested", note.to_owned()).await;
        }
        let path = "/apis/events.k8s.io/v1/namespaces/n/events";
        let verbs: Vec<_> =
            api.list_calls().iter().map(|call| call.split('/').next().unwrap().to_owned()).collect();
        assert_eq!(verbs, ["POST ", "POST ", "PATCH "]);
        assert_eq!(api.last_body("POST", path)["note"], "two");
    }
}
