//! Reports failed CNI calls as warning events on pods.

use super::event_dedup::{PodEventAction, PodEventDedup, PodFailureKey};
use crate::{api_call::with_timeout, error::error_chain};
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
use parking_lot::Mutex;
use serde_json::json;
use std::{sync::Arc, time::Instant};
use tracing::debug;

/// Maximum length of an event message that the API server accepts.
const MAX_MESSAGE_CHARS: usize = 1024;

/// Records failures as events on pods. Cheap to clone.
#[derive(Clone)]
pub struct PodEventRecorder {
    client: Client,
    node: String,
    dedup: Arc<Mutex<PodEventDedup>>,
}

impl PodEventRecorder {
    /// `node` is the name that events show as their source.
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node, dedup: Arc::default() }
    }

    /// Records a warning event for `pod`, unless the same failure was reported recently.
    pub async fn warn(self, pod: PodRef, fault: Fault) {
        let reason = fault.code.reason().to_owned();
        let message = truncate_message(&fault.to_string());
        let pod_id = if pod.uid.is_empty() { pod.to_string() } else { pod.uid.clone() };
        let failure: PodFailureKey = (pod_id, reason.clone());
        let now = Timestamp::now();
        let name = || format!("{}.{:x}", pod.name, now.as_nanosecond());
        let action = self.dedup.lock().record(failure.clone(), &message, name, Instant::now());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &pod.namespace);
        let written = match action {
            PodEventAction::Suppress => return,
            PodEventAction::Create(name) => {
                let event = self.build_event(name, &pod, reason, message, now);
                with_timeout(events.create(&PostParams::default(), &event)).await
            }
            PodEventAction::UpdateCount(name, count) => {
                let patch = json!({ "count": count, "lastTimestamp": Time(now) });
                with_timeout(events.patch(&name, &PatchParams::default(), &Patch::Merge(patch))).await
            }
        };
        if let Err(e) = written {
            debug!(%pod, error = %error_chain(&e), "cannot write the warning event of the pod");
            self.dedup.lock().remove(&failure);
        }
    }

    fn build_event(
        &self,
        name: String,
        pod: &PodRef,
        reason: String,
        message: String,
        now: Timestamp,
    ) -> Event {
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
}

fn truncate_message(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS - 1) {
        // The API server counts characters, not bytes.
        Some((end, _)) if text.chars().count() > MAX_MESSAGE_CHARS => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}
