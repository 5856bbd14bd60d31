//! Cache of one kind of object.

use kube::runtime::watcher::Event;
use parking_lot::RwLock;
use std::{collections::HashMap, mem, sync::Arc, time::Duration};
use tokio::{sync::watch, time};

/// Namespace and name of an object.
pub type ObjectKey = (String, String);

type ObjectMap<V> = HashMap<ObjectKey, Arc<V>>;

/// Cache of one kind of object by namespace and name. `V` is the part of each object that the daemon needs.
///
/// Tests pass events to [`Self::apply`] directly, so they need neither a cluster nor a clock.
#[derive(Debug)]
pub struct WatchCache<V> {
    /// The current objects, and the objects received so far in response to a list request that is in
    /// progress. When the response is complete, they replace the current ones.
    state: RwLock<(ObjectMap<V>, ObjectMap<V>)>,
    /// Number of changes; zero until all objects have been listed once.
    changes: watch::Sender<u64>,
}

impl<V> Default for WatchCache<V> {
    fn default() -> Self {
        Self { state: RwLock::default(), changes: watch::channel(0).0 }
    }
}

impl<V: PartialEq> WatchCache<V> {
    /// Applies a watch event. An object whose value is `None` is removed from the cache. An event that changes no value,
    /// such as a heartbeat of a Node, is no change.
    pub fn apply(&self, event: Event<(ObjectKey, Option<V>)>) {
        let mut state = self.state.write();
        let changed = match event {
            Event::Init => {
                state.1.clear();
                return;
            }
            Event::InitApply((name, value)) => {
                put(&mut state.1, name, value);
                return;
            }
            Event::InitDone => {
                let listed = mem::take(&mut state.1);
                let before = mem::replace(&mut state.0, listed);
                !self.is_synced() || state.0 != before
            }
            Event::Apply((name, value)) => put(&mut state.0, name, value),
            Event::Delete((name, _)) => state.0.remove(&name).is_some(),
        };
        drop(state);
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

/// Stores or removes a value. Returns whether that changed anything.
fn put<V: PartialEq>(objects: &mut ObjectMap<V>, name: ObjectKey, value: Option<V>) -> bool {
    match value {
        Some(value) if objects.get(&name).is_some_and(|known| **known == value) => false,
        Some(value) => {
            objects.insert(name, Arc::new(value));
            true
        }
        None => objects.remove(&name).is_some(),
    }
}

impl<V> WatchCache<V> {
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.state.read().0.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns one object for which `predicate` is true, if any.
    pub fn find(&self, predicate: impl Fn(&V) -> bool) -> Option<(ObjectKey, Arc<V>)> {
        let state = self.state.read();
        state
            .0
            .iter()
            .find(|(_, object)| predicate(object))
            .map(|(name, object)| (name.clone(), object.clone()))
    }

    /// Waits until the object is cached and `predicate` is true for it. Returns `None` after `timeout`.
    pub async fn wait_for(
        &self,
        namespace: &str,
        name: &str,
        timeout: Duration,
        predicate: impl Fn(&V) -> bool,
    ) -> Option<Arc<V>> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(object) = self.get(namespace, name).filter(|object| predicate(object)) {
                    return object;
                }
                // Cannot fail: `self` owns the sender.
                let _ = changes.changed().await;
            }
        };
        time::timeout(timeout, found).await.ok()
    }

    pub fn list(&self) -> Vec<(ObjectKey, Arc<V>)> {
        self.state.read().0.iter().map(|(name, object)| (name.clone(), object.clone())).collect()
    }

    /// Like [`Self::list`], without namespaces and names.
    pub fn values(&self) -> Vec<Arc<V>> {
        self.state.read().0.values().cloned().collect()
    }

    /// Counts a change that the objects do not show. Readers look again.
    pub fn notify(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns a receiver of the change counter, which is zero until all objects have been listed once.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until all objects have been listed once.
    pub async fn wait_synced(&self) {
        let _ = self.changes.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Whether all objects have been listed once.
    pub fn is_synced(&self) -> bool {
        *self.changes.borrow() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: &str) -> ObjectKey {
        ("default".to_owned(), n.to_owned())
    }

    #[tokio::test]
    async fn new_list_replaces_the_old_only_when_complete() {
        let cache = WatchCache::default();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply((key("a"), Some(1))));
        assert!(!cache.is_synced() && cache.get("default", "a").is_none());
        cache.apply(Event::InitDone);
        assert!(cache.is_synced());
        assert_eq!(cache.get("default", "a").as_deref(), Some(&1));

        cache.apply(Event::Init);
        cache.apply(Event::InitApply((key("b"), Some(2))));
        assert_eq!(cache.get("default", "a").as_deref(), Some(&1), "cached until the new list is complete");
        cache.apply(Event::InitDone);
        assert!(cache.get("default", "a").is_none() && cache.get("default", "b").is_some());

        cache.apply(Event::Apply((key("b"), None)));
        assert!(cache.get("default", "b").is_none(), "an object without a value is absent");
    }

    #[test]
    fn only_real_changes_are_counted() {
        let cache = WatchCache::default();
        let counted = || *cache.changes().borrow();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply((key("a"), Some(1))));
        cache.apply(Event::InitDone);
        assert_eq!(counted(), 1);
        cache.apply(Event::Apply((key("a"), Some(1))));
        cache.apply(Event::Apply((key("b"), None)));
        cache.apply(Event::Delete((key("b"), None)));
        cache.apply(Event::Init);
        cache.apply(Event::InitApply((key("a"), Some(1))));
        cache.apply(Event::InitDone);
        assert_eq!(counted(), 1, "the same values again");
        cache.apply(Event::Apply((key("a"), Some(2))));
        cache.apply(Event::Delete((key("a"), None)));
        assert_eq!(counted(), 3);
        cache.apply(Event::Init);
        cache.apply(Event::InitApply((key("c"), Some(1))));
        cache.apply(Event::InitDone);
        assert_eq!(counted(), 4);
    }

    #[tokio::test]
    async fn wait_for_returns_an_object_that_arrives_later() {
        let cache = Arc::new(WatchCache::default());
        let none = cache.wait_for("default", "a", Duration::from_millis(10), |_| true).await;
        assert!(none.is_none());
        let waiting = tokio::spawn({
            let cache = cache.clone();
            async move { cache.wait_for("default", "a", Duration::from_secs(5), |value| *value == 7).await }
        });
        time::sleep(Duration::from_millis(10)).await;
        cache.apply(Event::Apply((key("other"), Some(7))));
        cache.apply(Event::Apply((key("a"), Some(1))));
        cache.apply(Event::Apply((key("a"), Some(7))));
        assert_eq!(waiting.await.unwrap().as_deref(), Some(&7));
    }
}
