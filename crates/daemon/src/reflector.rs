//! Watches API objects, restarts the watch after errors, and fills caches.
//!
//! kube's own `StreamBackoff` is not used: it starts again with the shortest pause after every event, and the watcher
//! emits `Init` at the start of every attempt, so the pause would never grow during an outage.

use crate::{
    ApiKind, Retry, loop_metrics,
    tasks::{TaskEnded, TaskSet},
    watch_cache::WatchCache,
};
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event, watcher},
};
use std::{error::Error, sync::Arc, time::Duration};
use tracing::{info, warn};

/// Shortest and longest pause before a failed watch is restarted. Both are shorter than kube's (0.8 s and 30 s), because
/// a node daemon without caches cannot start pods.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

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

/// Selects the object `name` only.
pub fn named(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

/// Watches the objects of `api` and passes the events to `apply`. Never returns; retries while the API server
/// is unavailable.
pub async fn watch_forever<K: ApiKind>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut apply: impl FnMut(Event<K>),
) {
    loop_metrics::count_restarts(what, 0);
    let events = watcher(api, config);
    pin_mut!(events);
    let mut retry = Retry::new(MIN_BACKOFF, MAX_BACKOFF);
    while let Some(event) = events.next().await {
        match event {
            // The watcher emits `Init` before the API server has responded. It does not end an outage.
            Ok(Event::Init) => apply(Event::Init),
            Ok(event) => {
                if retry.succeeded() {
                    info!(what, "watch of API objects restored");
                }
                apply(event);
            }
            Err(e) => {
                if let Some(error) = retry.news(&e) {
                    warn!(what, error, hint = hint(&e), "cannot watch API objects, retrying");
                }
                loop_metrics::count_restarts(what, 1);
                // The watcher restarts when it is polled again.
                retry.pause().await;
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
