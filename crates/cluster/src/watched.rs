//! Caches of API objects: one for each kind, shared by the controllers that need it.

use ferroband_daemon::{
    tasks::TaskSet,
    watch_cache::{WatchCache, map_event, watch_forever},
};
use kube::{Api, Resource, ResourceExt, core::DeserializeGuard, runtime::watcher};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, ops::Deref, sync::Arc};
use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::Error;

/// Converts an object to the value to cache. Returns `None` if the object need not be cached.
pub type ReduceFn<K, V> = fn(K) -> Option<V>;

/// A cache of the objects of one kind, which a watch keeps up to date. Clones share the cache.
#[derive(Debug)]
pub struct Reflector<V>(Arc<WatchCache<V>>);

/// An empty cache that is not synced and that no watch fills.
impl<V> Default for Reflector<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V> Clone for Reflector<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Deref for Reflector<V> {
    type Target = WatchCache<V>;

    fn deref(&self) -> &WatchCache<V> {
        &self.0
    }
}

impl<V: Send + Sync + 'static> Reflector<V> {
    /// Watches the objects of `api` and caches what `reduce` returns for each.
    ///
    /// An object that cannot be decoded is logged and skipped: one bad object must not hide the others. If the CRD does
    /// not exist, the watch is retried; until then the cache is not synced.
    pub fn start<K>(
        tasks: &mut TaskSet<Error>,
        what: &'static str,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        reduce: ReduceFn<K, V>,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Default + Eq + std::hash::Hash + Clone,
        DeserializeGuard<K>: Resource,
    {
        let cache = Arc::new(WatchCache::default());
        let writer = cache.clone();
        let watching = watch_forever(what, api, config, move |event| {
            writer.apply(map_event(event, |object: DeserializeGuard<K>| {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                let value = match object.0 {
                    Ok(mut object) => {
                        // managedFields are often half of an object, and no controller needs them.
                        object.meta_mut().managed_fields = None;
                        reduce(object)
                    }
                    Err(e) => {
                        warn!(
                            what,
                            object = format!("{}/{}", name.0, name.1),
                            error = e.error,
                            "cannot decode object; ignoring it"
                        );
                        None
                    }
                };
                (name, value)
            }));
        });
        tasks.start_endless(what, watching);
        Self(cache)
    }

    /// Returns a future that wakes `notify` on every change of the cache. It must be spawned or polled.
    pub fn notify_on_change(&self, notify: Arc<Notify>) -> impl Future<Output = ()> + Send + 'static {
        let mut changes: watch::Receiver<u64> = self.0.changes();
        async move {
            while changes.changed().await.is_ok() {
                notify.notify_one();
            }
        }
    }
}
