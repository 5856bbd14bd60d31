//! Fills caches from watches.

use crate::{
    tasks::{TaskEnded, TaskSet},
    watch::{map_event, watch_forever},
    watch_cache::WatchCache,
};
use kube::{Api, Resource, ResourceExt, core::DeserializeGuard, runtime::watcher};
use serde::de::DeserializeOwned;
use std::{error::Error, fmt::Debug, sync::Arc};
use tracing::warn;

/// A cache that one watch fills and many readers use.
pub type SharedCache<V> = Arc<WatchCache<V>>;

/// Watches the objects of `api` and caches what `reduce` returns for each; `None` means that the object is not cached.
/// Never returns.
///
/// With `Api<K>`, an object that cannot be decoded stops the updates of the cache until it is corrected. With
/// `Api<DeserializeGuard<K>>` and [`decoded`] it is skipped.
pub async fn reflect<K, V>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    cache: SharedCache<V>,
    reduce: impl Fn(K) -> Option<V>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_forever(what, api, config, |event| {
        cache.apply(map_event(event, |mut object: K| {
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            // managedFields are often half of an object, and no reader needs them.
            object.meta_mut().managed_fields = None;
            (key, reduce(object))
        }));
    })
    .await;
}

/// Makes a function for [`reflect`] that skips and logs objects that cannot be decoded: one bad object must not hide
/// the others.
pub fn decoded<K: Resource, V>(
    what: &'static str,
    reduce: impl Fn(K) -> Option<V>,
) -> impl Fn(DeserializeGuard<K>) -> Option<V> {
    move |object| match object.0 {
        Ok(object) => reduce(object),
        Err(e) => {
            let (namespace, name) = (e.metadata.namespace.unwrap_or_default(), e.metadata.name);
            let object = format!("{namespace}/{}", name.unwrap_or_default());
            warn!(what, object, error = e.error, "cannot decode object; ignoring it");
            None
        }
    }
}

/// Starts a task that fills the returned cache with what `reduce` returns for each object of `api`. Skips objects that
/// cannot be decoded. If the CRD does not exist, the watch is retried; until then the cache is not synced.
pub fn start_reflector<K, V, E>(
    tasks: &mut TaskSet<E>,
    what: &'static str,
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    reduce: fn(K) -> Option<V>,
) -> SharedCache<V>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default + Eq + std::hash::Hash + Clone,
    V: Send + Sync + 'static,
    E: Error + From<TaskEnded> + Send + 'static,
{
    let cache = SharedCache::default();
    tasks.start_endless(what, reflect(what, api, config, cache.clone(), decoded(what, reduce)));
    cache
}
