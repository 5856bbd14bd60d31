//! Watches one kind of object and caches the result.

use crate::error_chain;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use std::{
    collections::HashMap,
    fmt::Debug,
    mem,
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
    time::Duration,
};
use tokio::{sync::watch, time};
use tracing::{info, warn};

/// Shortest and longest pause before a failed watch is restarted. Both are short because a node daemon
/// without caches cannot start pods.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

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

impl<V> WatchCache<V> {
    fn write(&self) -> RwLockWriteGuard<'_, (ObjectMap<V>, ObjectMap<V>)> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a watch event. An object whose value is `None` is removed from the cache.
    pub fn apply(&self, event: Event<(ObjectKey, Option<V>)>) {
        let put = |objects: &mut ObjectMap<V>, name, value: Option<V>| match value {
            Some(value) => objects.insert(name, Arc::new(value)),
            None => objects.remove(&name),
        };
        let mut state = self.write();
        match event {
            Event::Init => return state.1.clear(),
            Event::InitApply((name, value)) => return drop(put(&mut state.1, name, value)),
            Event::InitDone => state.0 = mem::take(&mut state.1),
            Event::Apply((name, value)) => drop(put(&mut state.0, name, value)),
            Event::Delete((name, _)) => drop(state.0.remove(&name)),
        }
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.0.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns one object for which `predicate` is true, if any.
    pub fn find(&self, predicate: impl Fn(&V) -> bool) -> Option<(ObjectKey, Arc<V>)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
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
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.0.iter().map(|(name, object)| (name.clone(), object.clone())).collect()
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

/// Applies `map` to the object of a watch event.
pub fn map_event<K, T>(event: Event<K>, map: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::Apply(object) => Event::Apply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
    }
}

/// Watches the objects of `api` and passes the events to `apply`. Never returns; retries while the API server
/// is unavailable.
pub async fn watch_forever<K>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut apply: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api, config);
    pin_mut!(events);
    let mut last_problem = None;
    let mut pause = MIN_BACKOFF;
    while let Some(event) = events.next().await {
        match event {
            // The watcher emits `Init` at the start of every attempt, before the API server has responded. It
            // does not end an outage, so `pause` is not reset.
            Ok(Event::Init) => apply(Event::Init),
            Ok(event) => {
                pause = MIN_BACKOFF;
                if last_problem.take().is_some() {
                    info!(what, "watch of API objects restored");
                }
                apply(event);
            }
            Err(e) => {
                let problem = error_chain(&e);
                // Log each distinct problem once: an outage may last for hours.
                if last_problem.as_ref() != Some(&problem) {
                    let hint = hint(&e);
                    warn!(what, error = problem, hint, "cannot watch API objects, retrying");
                    last_problem = Some(problem);
                }
                // The watcher restarts when it is polled again.
                time::sleep(pause).await;
                pause = (pause * 2).min(MAX_BACKOFF);
            }
        }
    }
}

fn hint(error: &watcher::Error) -> &'static str {
    let (watcher::Error::InitialListFailed(inner) | watcher::Error::WatchStartFailed(inner)) = error else {
        return "";
    };
    match inner {
        kube::Error::Api(status) if status.code == 404 => {
            "the custom resource definition is missing: run `ferroband crds apply`"
        }
        kube::Error::Api(status) if status.code == 403 => {
            "the daemon's ClusterRole or its binding is missing"
        }
        _ => "",
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
