//! The objects of the load test's API server, and the watches on them.

use super::object_query::ObjectSelector;
use super::stored_object::StoredObject;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Annotation of the bookmark after which a streaming list is complete.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Default)]
pub struct ObjectStore {
    collections: HashMap<String, ObjectCollection>,
    version: u64,
}

#[derive(Default)]
struct ObjectCollection {
    objects: BTreeMap<String, StoredObject>,
    watches: Vec<OpenWatch>,
    /// Watch events sent so far, without those at the start of a watch, and their bytes.
    delivered: (u64, usize),
}

struct OpenWatch {
    events: UnboundedSender<Bytes>,
    selector: ObjectSelector,
    metadata_only: bool,
}

/// One page of a list.
pub struct ObjectPage {
    pub items: Vec<String>,
    pub version: u64,
    /// Key after which the next page begins.
    pub next: Option<String>,
}

impl ObjectStore {
    pub fn get(&self, collection: &str, key: &str) -> Option<&StoredObject> {
        self.collections.get(collection)?.objects.get(key)
    }

    /// Returns all objects of a collection with their keys.
    pub fn objects<'a>(
        &'a self,
        collection: &str,
    ) -> impl Iterator<Item = (&'a String, &'a StoredObject)> + use<'a> {
        self.collections.get(collection).into_iter().flat_map(|collection| &collection.objects)
    }

    /// Returns the watch events that were sent, as the metrics of an API server.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        for (collection, ObjectCollection { delivered: (events, bytes), .. }) in &self.collections {
            let resource = collection.rsplit('/').next().unwrap_or_default();
            text.push_str(&format!("apiserver_watch_events_total{{resource=\"{resource}\"}} {events}\n"));
            text.push_str(&format!("apiserver_watch_events_sizes_sum{{resource=\"{resource}\"}} {bytes}\n"));
        }
        text
    }

    /// Stores an object with a new version, and tells the watches.
    pub fn put(&mut self, collection: &str, key: &str, mut object: StoredObject) -> &StoredObject {
        self.version += 1;
        let target = self.collections.entry(collection.to_owned()).or_default();
        let kind = if target.objects.contains_key(key) { "MODIFIED" } else { "ADDED" };
        let metadata = &mut object.metadata;
        metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        metadata.entry("uid").or_insert_with(|| json!(format!("uid-{}", self.version)));
        metadata.entry("generation").or_insert(json!(1));
        metadata.entry("creationTimestamp").or_insert(json!("2026-01-01T00:00:00Z"));
        target.tell(kind, &object);
        target.objects.insert(key.to_owned(), object);
        &target.objects[key]
    }

    pub fn delete(&mut self, collection: &str, key: &str) -> Option<StoredObject> {
        let target = self.collections.get_mut(collection)?;
        let mut object = target.objects.remove(key)?;
        self.version += 1;
        object.metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        target.tell("DELETED", &object);
        Some(object)
    }

    pub fn list(
        &self,
        collection: &str,
        selector: &ObjectSelector,
        metadata_only: bool,
        (after, limit): (Option<&str>, usize),
    ) -> ObjectPage {
        let mut page = ObjectPage { items: Vec::new(), version: self.version, next: None };
        let mut last = None;
        for (key, object) in
            self.objects(collection).filter(|(key, _)| after.is_none_or(|after| key.as_str() > after))
        {
            if page.items.len() == limit {
                page.next = last;
                break;
            }
            if selector.matches(object) {
                page.items.push(object.render(metadata_only));
                last = Some(key.clone());
            }
        }
        page
    }

    /// Opens a watch. Objects that are newer than `since` are sent first. A watch that begins with all objects ends
    /// them with a bookmark.
    pub fn watch(
        &mut self,
        collection: &str,
        selector: ObjectSelector,
        metadata_only: bool,
        since: Option<u64>,
    ) -> UnboundedReceiver<Bytes> {
        let (events, receiver) = unbounded_channel();
        let version = self.version;
        let target = self.collections.entry(collection.to_owned()).or_default();
        let is_new =
            |object: &&StoredObject| object.version() > since.unwrap_or_default() && selector.matches(object);
        for object in target.objects.values().filter(is_new) {
            let _ = events.send(event("ADDED", &object.render(metadata_only)));
        }
        if since.is_none() {
            let bookmark = json!({"kind": "Bookmark", "apiVersion": "v1", "metadata": {
                "resourceVersion": version.to_string(), "annotations": {INITIAL_EVENTS_END: "true"}}});
            let _ = events.send(event("BOOKMARK", &Value::to_string(&bookmark)));
        }
        target.watches.push(OpenWatch { events, selector, metadata_only });
        receiver
    }
}

impl ObjectCollection {
    fn tell(&mut self, kind: &str, object: &StoredObject) {
        let (mut full, mut partial): (Option<Bytes>, Option<Bytes>) = (None, None);
        self.watches.retain(|watch| {
            if !watch.selector.matches(object) {
                return !watch.events.is_closed();
            }
            let rendered = if watch.metadata_only { &mut partial } else { &mut full };
            let bytes = rendered.get_or_insert_with(|| event(kind, &object.render(watch.metadata_only)));
            self.delivered.0 += 1;
            self.delivered.1 += bytes.len();
            watch.events.send(bytes.clone()).is_ok()
        });
    }
}

fn event(kind: &str, object: &str) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}
