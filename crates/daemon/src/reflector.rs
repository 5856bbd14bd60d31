//! Watches API objects, restarts the watch after errors, and fills caches.
//!
//! kube's own `StreamBackoff` is not used: it starts again with the shortest pause after every event, and the watcher
//! emits `Init` at the start of every attempt, so the pause would never grow during an outage.

use crate::{
    ApiKind, Retry,
    absent_kind::wait_for_crd,
    catch_panic, lengthened, loop_metrics,
    tasks::{TaskEnded, TaskSet},
    watch_cache::WatchCache,
};
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event, InitialListStrategy, watcher},
};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::{debug, error, info, warn};

/// Shortest and longest pause before a failed watch is restarted. Both are shorter than kube's (0.8 s and 30 s), because
/// a node daemon without caches cannot start pods.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Shortest duration of a watch. It is lengthened by up to a half; kube allows at most 294 s.
const MIN_WATCH_TIME: Duration = Duration::from_secs(190);
/// How long a streaming list may pause.
const STREAMING_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a kind whose CRD exists is expected to be served soon.
const MAX_EARLY_ASSUMPTIONS: u32 = 5;

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

/// Makes the API server answer a list from its cache: any version (`resourceVersion=0`) and no pages. A list with pages or
/// without a version may read all objects from etcd (docs/decisions/0067).
pub fn from_cache(config: watcher::Config) -> watcher::Config {
    watcher::Config { page_size: None, ..config.any_semantic() }
}

/// Watches the objects of `api` and passes the events to `apply`. Never returns; retries while the API server
/// is unavailable.
///
/// The objects come first, as a streaming list, or as a list if the API server has no streaming lists. The result may be
/// older than a write that preceded it; the events that follow make up for that. A reader that must know that an object
/// is absent reads it from the API server.
pub async fn watch_forever<K: ApiKind>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut apply: impl FnMut(Event<K>),
) {
    loop_metrics::count_restarts(what, 0);
    // The API server ends a watch after this time. Daemons that started together must not restart their watches together.
    let seconds = u32::try_from(lengthened(MIN_WATCH_TIME).as_secs()).unwrap_or(u32::MAX);
    let mut config = from_cache(config).streaming_lists().timeout(seconds);
    let mut retry = Retry::new(MIN_BACKOFF, MAX_BACKOFF);
    let mut absences = 0;
    loop {
        let events = watcher(api.clone(), config.clone());
        pin_mut!(events);
        let mut is_listed = false;
        loop {
            let streams = config.initial_list_strategy == InitialListStrategy::StreamingList;
            let next = async {
                match streams && !is_listed {
                    // A server that ignores the parameters of a streaming list never ends it.
                    true => timeout(STREAMING_TIMEOUT, events.next()).await.ok(),
                    false => Some(events.next().await),
                }
            };
            match next.await.flatten() {
                // The watcher emits `Init` before the API server has responded. It does not end an outage.
                Some(Ok(Event::Init)) => {
                    is_listed = false;
                    apply(Event::Init);
                }
                Some(Ok(event)) => {
                    is_listed |= matches!(event, Event::InitDone);
                    absences = 0;
                    if retry.succeeded() {
                        info!(what, "watch of API objects restored");
                    }
                    apply(event);
                }
                Some(Err(e)) if streams && !is_listed && !may_stream_later(&e) => break,
                Some(Err(e)) => {
                    if let Some(error) = retry.news(&e) {
                        warn!(what, error, hint = hint(&e), "cannot watch API objects, retrying");
                    }
                    loop_metrics::count_restarts(what, 1);
                    // The watcher restarts when it is polled again.
                    if is_absent(&e) {
                        absences += 1;
                        let name = format!("{}.{}", K::plural(&()), K::group(&()));
                        wait_for_crd(api.clone().into_client(), &name, absences < MAX_EARLY_ASSUMPTIONS)
                            .await;
                    } else {
                        retry.pause().await;
                    }
                }
                None => break,
            }
        }
        debug!(what, "API server has no streaming lists");
        config.initial_list_strategy = InitialListStrategy::ListWatch;
    }
}

/// Whether the kind is not known to the API server.
fn is_absent(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 404
    )
}

/// Whether a failed streaming list says nothing about the API server's support for it: the server is unavailable, the
/// kind is absent, or this daemon is not allowed to watch it.
fn may_stream_later(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            !matches!(status.code, 400 | 405 | 415 | 422)
        }
        // An API server whose etcd cannot report progress (older than 3.4.31) opens the stream and sends error 500.
        watcher::Error::WatchError(_)
        | watcher::Error::WatchStartFailed(kube::Error::SerdeError(_))
        | watcher::Error::WatchFailed(kube::Error::SerdeError(_)) => false,
        _ => true,
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
/// `Api<DeserializeGuard<K>>` and [`decoded`] it is skipped. An object for which `reduce` panics is not cached.
pub async fn reflect<K: ApiKind, V: PartialEq>(
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
            // An object of a tenant must not end the daemon. It counts as absent.
            let reduced = catch_panic(|| reduce(object)).unwrap_or_else(|panic| {
                error!(what, object = format!("{}/{}", key.0, key.1), error = %panic, "ignoring object");
                None
            });
            (key, reduced)
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
    pub fn start<K: ApiKind, V: PartialEq + Send + Sync + 'static>(
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
    pub fn all<K: ApiKind, V: PartialEq + Send + Sync + 'static>(
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
    use tokio::time::sleep;

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

    #[tokio::test(start_paused = true)]
    async fn lists_are_streamed_or_come_from_the_cache_of_the_api_server() {
        let api = FakeApi::default();
        api.insert_object("/api/v1/configmaps", json!({"metadata": {"resourceVersion": "1"}, "items": []}));
        let mut tasks = TaskSet::<TaskEnded>::default();
        let client = api.client();
        let cache = Reflectors { client: &client, tasks: &mut tasks }.all("maps", Some::<ConfigMap>);
        timeout(Duration::from_secs(15), cache.wait_synced()).await.unwrap();
        let queries = api.list_queries();
        assert!(
            queries[0].contains("watch=true") && queries[0].contains("sendInitialEvents=true"),
            "{queries:?}"
        );
        assert!(queries[1].contains("resourceVersion=0") && !queries[1].contains("limit="), "{queries:?}");
        tasks.stop_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_kind_is_asked_for_again_after_ten_minutes() {
        let api = FakeApi::default();
        let mut tasks = TaskSet::<TaskEnded>::default();
        let client = api.client();
        let cache = Reflectors { client: &client, tasks: &mut tasks }.all("maps", Some::<ConfigMap>);
        let asked = || api.list_calls().iter().filter(|call| *call == "GET /api/v1/configmaps").count();
        sleep(Duration::from_secs(590)).await;
        assert_eq!(asked(), 1);
        sleep(Duration::from_secs(320)).await;
        assert_eq!(asked(), 2);
        assert!(!cache.is_synced());
        tasks.stop_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_causes_a_panic_does_not_hide_the_others() {
        let api = FakeApi::default();
        let item = |name: &str| json!({"metadata": {"name": name, "namespace": "n"}});
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": [item("bad"), item("good")]});
        api.insert_object("/api/v1/configmaps", list);
        let mut tasks = TaskSet::<TaskEnded>::default();
        let client = api.client();
        let cache = Reflectors { client: &client, tasks: &mut tasks }.all("panicking", |map: ConfigMap| {
            assert_ne!(map.metadata.name.as_deref(), Some("bad"), "an object of a tenant");
            Some(())
        });
        timeout(Duration::from_secs(15), cache.wait_synced()).await.unwrap();
        let names: Vec<_> = cache.list().into_iter().map(|((_, name), _)| name).collect();
        assert_eq!(names, ["good"]);
        tasks.stop_all().await;
    }
}
