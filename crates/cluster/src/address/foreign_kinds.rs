//! Watches kinds of other projects, which may be absent or unreadable.
//!
//! ```text
//!  404: no such kind  ──▶ the project is not installed: there are no records; asked again after ten minutes
//!  401, 403           ──▶ the records are unknown: the import stays pending, and says why
//!  no answer          ──▶ unknown, too: the cache is not synced
//! ```

use ferroband_daemon::{
    ApiKind, Retry, SharedCache,
    api_call::{ApiFailure, classify, with_timeout},
    error_chain, map_event, watch_forever,
};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::warn;

/// How long to wait before a kind that does not exist is asked for again.
const ABSENT_INTERVAL: Duration = Duration::from_secs(600);
/// Shortest and longest pause while the API server is unavailable, or refuses the list.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Cache of a kind of another project.
pub struct ForeignKind<V> {
    pub cache: SharedCache<V>,
    problem: Arc<Mutex<Option<String>>>,
}

impl<V> Clone for ForeignKind<V> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), problem: self.problem.clone() }
    }
}

impl<V> Default for ForeignKind<V> {
    fn default() -> Self {
        Self { cache: SharedCache::default(), problem: Arc::default() }
    }
}

impl<V: PartialEq> ForeignKind<V> {
    /// Returns why the objects cannot be listed, if so.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Keeps the cache in sync. `reduce` also receives objects that cannot be decoded. Never returns.
    pub async fn watch<K: ApiKind>(
        self,
        what: &'static str,
        api: Api<DeserializeGuard<K>>,
        config: watcher::Config,
        reduce: impl Fn(DeserializeGuard<K>) -> Option<V>,
    ) {
        self.wait_listable(what, &api).await;
        watch_forever(what, api, config, |event| {
            let listed = matches!(event, Event::InitDone);
            self.cache.apply(map_event(event, |object: DeserializeGuard<K>| {
                let key = (object.namespace().unwrap_or_default(), object.name_any());
                (key, reduce(object))
            }));
            if listed {
                self.set_problem(None);
            }
        })
        .await;
    }

    /// Sets the problem. A new one counts as a change of the cache, whose objects may be the same. Returns whether it is new.
    fn set_problem(&self, problem: Option<String>) -> bool {
        let is_new = *self.problem.lock() != problem;
        *self.problem.lock() = problem;
        if is_new && self.cache.is_synced() {
            self.cache.notify();
        }
        is_new
    }

    /// Waits until the kind exists and can be listed.
    async fn wait_listable<K: ApiKind>(&self, what: &'static str, api: &Api<DeserializeGuard<K>>) {
        let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
        loop {
            let Err(error) = with_timeout(api.list(&ListParams::default().limit(1))).await else { break };
            match classify(&error) {
                ApiFailure::Unavailable => retry.pause().await,
                ApiFailure::NotFound => {
                    self.set_problem(None);
                    self.cache.apply(Event::InitDone);
                    sleep(ABSENT_INTERVAL).await;
                }
                ApiFailure::Conflict | ApiFailure::Rejected => {
                    let problem = format!("{what} cannot be listed: {}", error_chain(&error));
                    if self.set_problem(Some(problem.clone())) {
                        warn!(problem, "no address is assigned until the records are imported");
                    }
                    self.cache.apply(Event::InitDone);
                    retry.pause().await;
                }
            }
        }
        if self.cache.is_synced() {
            self.set_problem(Some(format!("{what} are not listed yet")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::whereabouts::IPPool;
    use ferroband_testbed::fake_api::FakeApi;
    use http::StatusCode;
    use serde_json::json;
    use tokio::time::timeout;

    const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools";

    /// Watches for two minutes.
    async fn watch(api: &FakeApi) -> ForeignKind<String> {
        let kind = ForeignKind::default();
        let objects: Api<DeserializeGuard<IPPool>> = Api::all(api.client());
        let reduce = |object: DeserializeGuard<IPPool>| Some(object.name_any());
        let watching = kind.clone().watch("IPPools", objects, watcher::Config::default(), reduce);
        timeout(Duration::from_secs(120), watching).await.unwrap_err();
        kind
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_missing_kind_means_that_there_are_no_records() {
        let api = FakeApi::default();
        let absent = watch(&api).await;
        assert!(absent.cache.is_synced() && absent.problem().is_none());
        assert_eq!(api.list_calls().len(), 1, "an absent kind is asked for again after ten minutes");
        for status in [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED] {
            let api = FakeApi::default();
            api.reject(IP_POOLS, status);
            let refused = watch(&api).await;
            assert!(refused.cache.is_synced(), "{status}");
            assert!(refused.problem().unwrap().contains("IPPools cannot be listed"), "{status}");
        }
        let api = FakeApi::default();
        api.reject(IP_POOLS, StatusCode::SERVICE_UNAVAILABLE);
        assert!(!watch(&api).await.cache.is_synced(), "an outage tells nothing");
        let api = FakeApi::default();
        let items = json!([{"metadata": {"name": "a", "namespace": "n"}, "spec": 5}]);
        api.insert_object(IP_POOLS, json!({"metadata": {"resourceVersion": "1"}, "items": items}));
        let listed = watch(&api).await;
        assert_eq!((listed.cache.values().len(), listed.problem()), (1, None), "also unreadable objects");
    }
}
