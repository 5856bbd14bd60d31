//! Events about API objects.

use crate::{api_call::with_timeout, error_chain};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tracing::debug;

/// Publishes events in the name of a daemon. Clones count repeated events together.
#[derive(Clone)]
pub struct EventPublisher(Recorder);

impl EventPublisher {
    /// `daemon` and `instance` (its pod) are shown as the source of the events.
    pub fn new(client: Client, daemon: &str, instance: &str) -> Self {
        let reporter = Reporter { controller: daemon.to_owned(), instance: Some(instance.to_owned()) };
        Self(Recorder::new(client, reporter))
    }

    /// Publishes an event about `object`. If the same event is published again, its count is incremented. Errors are
    /// only logged.
    pub async fn publish<K>(&self, object: &K, kind: EventType, reason: &str, note: String)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(e) = with_timeout(self.0.publish(&event, &object.object_ref(&()))).await {
            debug!(error = %error_chain(&e), "cannot publish event");
        }
    }
}
