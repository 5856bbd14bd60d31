//! Following one kind of object, and the cache that comes of it.

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

/// The first pause between attempts and the longest. Short ones: a node without its caches can start no pod.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Namespace and name.
pub type ObjectKey = (String, String);

type ObjectMap<V> = HashMap<ObjectKey, Arc<V>>;

/// Objects of one kind by namespace and name, each reduced to the `V` that is needed of it.
///
/// Plain state: events are applied to it one by one, so tests need neither a cluster nor a clock.
#[derive(Debug)]
pub struct WatchCache<V> {
    /// What is known, and a list that is arriving.
    state: RwLock<(ObjectMap<V>, ObjectMap<V>)>,
    /// Counts the changes; zero until the first list is complete.
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

    /// Take in what happened. An object of no use (`None`) is as good as absent.
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

    /// The object, if it is known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.0.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// An object that is `meant`, if any is.
    pub fn find(&self, meant: impl Fn(&V) -> bool) -> Option<(ObjectKey, Arc<V>)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.0.iter().find(|(_, object)| meant(object)).map(|(name, object)| (name.clone(), object.clone()))
    }

    /// The object, once it is known and is the one that is `meant`, if that is within `patience`.
    pub async fn wait_for(
        &self,
        namespace: &str,
        name: &str,
        patience: Duration,
        meant: impl Fn(&V) -> bool,
    ) -> Option<Arc<V>> {
        let mut changes = self.changes.subscribe();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(object) = self.get(namespace, name).filter(|object| meant(object)) {
                    return object;
                }
                // Cannot fail: the sender is ours.
                let _ = changes.changed().await;
            }
        };
        time::timeout(patience, found).await.ok()
    }

    /// All of them.
    pub fn list(&self) -> Vec<(ObjectKey, Arc<V>)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.0.iter().map(|(name, object)| (name.clone(), object.clone())).collect()
    }

    /// How often it changed, for whoever acts on every change; zero until the first list is complete.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns once the first list is complete.
    pub async fn wait_synced(&self) {
        let _ = self.changes.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.changes.borrow() > 0
    }
}

/// The same event about the object as `read` sees it.
pub fn map_event<K, T>(event: Event<K>, read: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)),
        Event::Apply(object) => Event::Apply(read(object)),
        Event::Delete(object) => Event::Delete(read(object)),
    }
}

/// Tell `apply` what happens to the objects of `api`, for ever, whatever becomes of the API server.
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
    let mut trouble = None;
    let mut pause = MIN_BACKOFF;
    while let Some(event) = events.next().await {
        match event {
            // Every attempt begins so, whether or not anybody answers.
            Ok(Event::Init) => apply(Event::Init),
            Ok(event) => {
                pause = MIN_BACKOFF;
                if trouble.take().is_some() {
                    info!(what, "watching again");
                }
                apply(event);
            }
            Err(e) => {
                let problem = error_chain(&e);
                // Once for each kind of trouble: this may go on for hours.
                if trouble.as_ref() != Some(&problem) {
                    let hint = hint(&e);
                    warn!(what, error = problem, hint, "cannot watch; trying again");
                    trouble = Some(problem);
                }
                // The stream begins again when it is asked the next time.
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
            "the custom resource is not defined: run `ferroband crds apply`"
        }
        kube::Error::Api(status) if status.code == 403 => "the ClusterRole of this daemon is not in place",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: &str) -> ObjectKey {
        ("default".to_owned(), n.to_owned())
    }

    #[tokio::test]
    async fn a_new_list_replaces_the_old_at_its_end_only() {
        let cache = WatchCache::default();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply((name("a"), Some(1))));
        assert!(!cache.is_synced() && cache.get("default", "a").is_none());
        cache.apply(Event::InitDone);
        assert!(cache.is_synced());
        assert_eq!(cache.get("default", "a").as_deref(), Some(&1));

        cache.apply(Event::Init);
        cache.apply(Event::InitApply((name("b"), Some(2))));
        assert_eq!(cache.get("default", "a").as_deref(), Some(&1), "known until the new list is complete");
        cache.apply(Event::InitDone);
        assert!(cache.get("default", "a").is_none() && cache.get("default", "b").is_some());

        cache.apply(Event::Apply((name("b"), None)));
        assert!(cache.get("default", "b").is_none(), "of no use any more");
    }

    #[tokio::test]
    async fn an_object_that_comes_late_is_awaited() {
        let cache = Arc::new(WatchCache::default());
        let none = cache.wait_for("default", "a", Duration::from_millis(10), |_| true).await;
        assert!(none.is_none());
        let waiting = tokio::spawn({
            let cache = cache.clone();
            async move { cache.wait_for("default", "a", Duration::from_secs(5), |value| *value == 7).await }
        });
        time::sleep(Duration::from_millis(10)).await;
        cache.apply(Event::Apply((name("other"), Some(7))));
        cache.apply(Event::Apply((name("a"), Some(1))));
        cache.apply(Event::Apply((name("a"), Some(7))));
        assert_eq!(waiting.await.unwrap().as_deref(), Some(&7));
    }
}
