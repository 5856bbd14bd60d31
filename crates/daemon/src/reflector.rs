//! Fills caches from watches.

use crate::{
    ApiKind,
    tasks::{TaskEnded, TaskSet},
    watch::{map_event, watch_forever},
    watch_cache::WatchCache,
};
use kube::{Api, Client, Resource, ResourceExt, core::DeserializeGuard, runtime::watcher};
use std::{error::Error, sync::Arc};
use tracing::warn;

/// A cache that one watch fills and many readers use.
pub type SharedCache<V> = Arc<WatchCache<V>>;

/// Watches the objects of `api` and caches what `reduce` returns for each; `None` means that the object is not cached.
/// Never returns.
///
/// With `Api<K>`, an object that cannot be decoded stops the updates of the cache until it is corrected. With
/// `Api<DeserializeGuard<K>>` and [`decoded`] it is skipped.
pub async fn reflect<K: ApiKind, V>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    cache: SharedCache<V>,
    reduce: impl Fn(K) -> Option<V>,
) {
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

/// Starts reflectors as tasks.
pub struct Reflectors<'a, E> {
    pub client: &'a Client,
    pub tasks: &'a mut TaskSet<E>,
}

impl<E: Error + From<TaskEnded> + Send + 'static> Reflectors<'_, E> {
    /// Fills the returned cache with what `reduce` returns for each object of `api`. Skips objects that cannot be
    /// decoded. If the CRD does not exist, the watch is retried; until then the cache is not synced.
    pub fn start<K: ApiKind, V: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        reduce: fn(K) -> Option<V>,
    ) -> SharedCache<V> {
        let cache = SharedCache::default();
        self.tasks.start_endless(what, reflect(what, api, config, cache.clone(), decoded(what, reduce)));
        cache
    }

    /// Like [`Self::start`], for all objects of the kind in the cluster.
    pub fn all<K: ApiKind, V: Send + Sync + 'static>(
        &mut self,
        what: &'static str,
        reduce: fn(K) -> Option<V>,
    ) -> SharedCache<V> {
        self.start(what, Api::all(self.client.clone()), watcher::Config::default(), reduce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render_loop_metrics;
    use ferroband_testbed::fake_api::FakeApi;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn a_watch_survives_an_outage_and_an_object_that_cannot_be_decoded() {
        let (api, what) = (FakeApi::default(), "config maps of the test");
        api.set_unavailable(true);
        let items = json!([
            {"metadata": {"name": "good", "namespace": "n", "managedFields": [{"manager": "x"}]}, "data": {"a": "b"}},
            {"metadata": {"name": "bad", "namespace": "n"}, "data": 5},
        ]);
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        api.insert_object("/api/v1/configmaps", list);
        let mut tasks = TaskSet::<TaskEnded>::default();
        let client = api.client();
        let cache = Reflectors { client: &client, tasks: &mut tasks }.all(what, Some::<ConfigMap>);
        sleep(Duration::from_secs(60)).await;
        let attempts = api.list_calls().len();
        assert!((8..=20).contains(&attempts), "{attempts} attempts with growing pauses");
        let counted = format!("ferroband_watch_restarts_total{{watch=\"{what}\"}} {attempts}\n");
        assert!(render_loop_metrics().contains(&counted), "{counted}");
        assert!(!cache.is_synced());

        api.set_unavailable(false);
        timeout(Duration::from_secs(15), cache.wait_synced()).await.unwrap();
        let names: Vec<_> = cache.list().into_iter().map(|((_, name), _)| name).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(cache.get("n", "good").unwrap().metadata.managed_fields, None);
        tasks.stop_all().await;
    }
}
