//! The caches of a leader: one for each kind, shared by everything that needs it.

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

/// What is kept of an object; `None` if it is of no use.
pub type ReduceFn<K, V> = fn(K) -> Option<V>;

/// A kind of object that is being watched.
#[derive(Debug)]
pub struct Reflector<V>(Arc<WatchCache<V>>);

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
    /// Watch the objects of `api`, keeping of each what `reduce` says.
    ///
    /// An object that cannot be read is told in the log and left out: one bad object must not hide the others. A kind
    /// that is not defined is asked for again and again; until then the cache is not complete.
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
        let kept = cache.clone();
        let watching = watch_forever(what, api, config, move |event| {
            kept.apply(map_event(event, |object: DeserializeGuard<K>| {
                let name = (object.namespace().unwrap_or_default(), object.name_any());
                let value = match object.0 {
                    Ok(mut object) => {
                        // Half of an object's size, and nobody's business here.
                        object.meta_mut().managed_fields = None;
                        reduce(object)
                    }
                    Err(e) => {
                        warn!(
                            what,
                            object = format!("{}/{}", name.0, name.1),
                            error = e.error,
                            "cannot be read"
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

    /// Wake `wake` on every change.
    pub fn notify_on_change(&self, wake: Arc<Notify>) -> impl Future<Output = ()> + Send + 'static {
        let mut changes: watch::Receiver<u64> = self.0.changes();
        async move {
            while changes.changed().await.is_ok() {
                wake.notify_one();
            }
        }
    }
}
