//! Events on pods.

use super::told::{Failure, Ledger, Telling};
use crate::{call::bounded, error::chain};
use ferroband_model::{Fault, PodRef};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tracing::debug;

/// The longest message that the API server takes.
const LONGEST: usize = 1024;

/// Tells failures as events. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    client: Client,
    node: String,
    ledger: Arc<Mutex<Ledger>>,
}

impl Events {
    /// Events by way of `client`, from `node`.
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node, ledger: Arc::default() }
    }

    /// Tell what went wrong with `pod`, unless that was done a moment ago.
    pub async fn warn(self, pod: PodRef, fault: Fault) {
        let reason = fault.code.reason().to_owned();
        let message = shortened(&fault.to_string());
        let who = if pod.uid.is_empty() { pod.to_string() } else { pod.uid.clone() };
        let failure: Failure = (who, reason.clone());
        let now = Timestamp::now();
        let name = || format!("{}.{:x}", pod.name, now.as_nanosecond());
        let telling = self.lock().happened(failure.clone(), &message, name, Instant::now());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &pod.namespace);
        let told = match telling {
            Telling::Quiet => return,
            Telling::First(name) => {
                let event = self.event(name, &pod, reason, message, now);
                bounded(events.create(&PostParams::default(), &event)).await
            }
            Telling::Again(name, count) => {
                let patch = json!({ "count": count, "lastTimestamp": Time(now) });
                bounded(events.patch(&name, &PatchParams::default(), &Patch::Merge(patch))).await
            }
        };
        if let Err(e) = told {
            debug!(%pod, error = %chain(&e), "cannot tell the event");
            self.lock().forget(&failure);
        }
    }

    fn event(&self, name: String, pod: &PodRef, reason: String, message: String, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(pod.namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                uid: Some(pod.uid.clone()).filter(|uid| !uid.is_empty()),
                ..ObjectReference::default()
            },
            type_: Some("Warning".to_owned()),
            reason: Some(reason),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some("ferroband-node".to_owned()),
                host: Some(self.node.clone()),
            }),
            ..Event::default()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST - 1) {
        // Characters, not bytes, are counted by the API server.
        Some((end, _)) if text.chars().count() > LONGEST => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}
