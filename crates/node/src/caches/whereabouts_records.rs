//! Addresses in IPPools that Whereabouts manages. Ferroband never assigns these addresses to other pods.
//!
//! ```text
//!  404: no such kind          ──▶ Whereabouts is not installed: nothing is recorded
//!  401, 403                   ──▶ the records are unknown: no range of type `whereabouts` assigns addresses
//!  an IPPool cannot be read   ──▶ its records are unknown: its range assigns no addresses
//! ```

use crate::{
    api_call::{ApiFailure, classify, with_timeout},
    error::error_chain,
};
use ferroband_address::whereabouts::{
    RecordedAllocation, RecordedAllocations, UnreadableRecords, parse_allocation_key, ranges_in_name,
};
use ferroband_api::whereabouts::IPPool;
use ferroband_daemon::{
    Retry, SharedCache, WatchCache, addresses::UNMANAGED_SELECTOR, map_event, watch_cache::ObjectKey,
    watch_forever,
};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::{info, warn};

/// How often to check whether the IPPools can be listed now.
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Like [`RECHECK_INTERVAL`], while pods may wait for the result.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Cache of the allocated addresses in IPPool objects. IPPools that Ferroband writes are left out.
#[derive(Clone)]
pub struct WhereaboutsRecords {
    cache: SharedCache<RecordedAllocations>,
    /// Why the IPPools cannot be listed.
    list_problem: Arc<Mutex<Option<String>>>,
    client: Client,
}

impl WhereaboutsRecords {
    /// Creates an empty cache, which `watch` fills.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), list_problem: Arc::default(), client }
    }

    pub fn cache(&self) -> &WatchCache<RecordedAllocations> {
        &self.cache
    }

    /// Returns all allocations that Whereabouts has recorded, and what of its records cannot be read.
    pub fn recorded(&self) -> RecordedAllocations {
        let mut all = RecordedAllocations::default();
        for (_, pool) in self.cache.list() {
            all.records.extend(pool.records.iter().cloned());
            all.unreadable.extend(pool.unreadable.iter().cloned());
        }
        let list_problem = self.list_problem.lock().clone();
        all.unreadable.extend(list_problem.map(|cause| UnreadableRecords { ranges: None, cause }));
        all
    }

    fn set_list_problem(&self, problem: Option<String>) {
        let mut current = self.list_problem.lock();
        if let Some(problem) = &problem
            && current.as_ref() != Some(problem)
        {
            warn!(problem, "no address of a Whereabouts range is assigned");
        }
        *current = problem;
    }

    /// Keeps the cache in sync with the IPPools. Never returns. In a cluster without the Whereabouts CRDs, the
    /// cache is empty and counts as synced.
    pub async fn watch(self) {
        let api: Api<DeserializeGuard<IPPool>> = Api::all(self.client.clone());
        let one = ListParams::default().limit(1);
        let mut retry = Retry::new(Duration::from_secs(1), RETRY_INTERVAL);
        loop {
            let error = match with_timeout(api.list(&one)).await {
                Ok(_) => break,
                Err(e) => e,
            };
            match classify(&error) {
                ApiFailure::Unavailable => retry.pause().await,
                ApiFailure::NotFound => {
                    info!("the kind IPPool does not exist, so Whereabouts is not installed");
                    self.set_list_problem(None);
                    self.cache.apply(Event::InitDone);
                    // Check again later, because Whereabouts may be installed at any time.
                    sleep(RECHECK_INTERVAL).await;
                }
                ApiFailure::Conflict | ApiFailure::Rejected => {
                    let cause = format!(
                        "IPPools of Whereabouts (ippools.whereabouts.cni.cncf.io) cannot be listed: {}",
                        error_chain(&error)
                    );
                    self.set_list_problem(Some(cause));
                    // Pods without a Whereabouts range do not wait.
                    self.cache.apply(Event::InitDone);
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
        if self.cache.is_synced() {
            self.set_list_problem(Some("IPPools of Whereabouts are not listed yet".to_owned()));
        }
        let config = watcher::Config::default().labels(UNMANAGED_SELECTOR);
        watch_forever("Whereabouts IPPools", api, config, |event| {
            let listed = matches!(event, Event::InitDone);
            self.cache.apply(map_event(event, parse_pool));
            if listed {
                self.set_list_problem(None);
            }
        })
        .await;
    }
}

fn parse_pool(object: DeserializeGuard<IPPool>) -> (ObjectKey, Option<RecordedAllocations>) {
    let key = (object.namespace().unwrap_or_default(), object.name_any());
    let ip_pool = format!("{}/{}", key.0, key.1);
    let mut parsed = RecordedAllocations::default();
    let unreadable = |range: Option<&str>, cause: &str| {
        let spec = range.and_then(|range| range.parse().ok());
        let ranges: Vec<_> = spec.into_iter().chain(ranges_in_name(&key.1)).collect();
        let cause = format!("IPPool {ip_pool} of Whereabouts cannot be read: {cause}");
        warn!(cause, ?ranges, "no address of the range is assigned");
        // Whereabouts finds an IPPool by the range in its name. It does not use one without a range.
        UnreadableRecords { ranges: Some(ranges), cause }
    };
    match object.0 {
        Err(e) => parsed.unreadable.push(unreadable(None, &e.error)),
        Ok(pool) => {
            for (offset, allocation) in pool.spec.allocations {
                match parse_allocation_key(&key.1, &pool.spec.range, &offset) {
                    Some((space, address)) => parsed.records.push(RecordedAllocation {
                        space,
                        address,
                        pod: allocation.podref,
                        interface: allocation.ifname.filter(|name| !name.is_empty()),
                        ip_pool: ip_pool.clone(),
                    }),
                    None => {
                        let range = &pool.spec.range;
                        let cause = format!("range {range:?} and key {offset:?} are not an address of it");
                        parsed.unreadable.push(unreadable(Some(range), &cause));
                    }
                }
            }
        }
    }
    (key, Some(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;
    use http::StatusCode;
    use serde_json::{Value, json};
    use tokio::time::timeout;

    const IP_POOLS: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools";

    /// Watches for two minutes and returns the records.
    async fn watch(api: &FakeApi) -> WhereaboutsRecords {
        let records = WhereaboutsRecords::new(api.client());
        timeout(Duration::from_secs(120), records.clone().watch()).await.unwrap_err();
        records
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_missing_kind_means_that_whereabouts_is_not_installed() {
        let absent = watch(&FakeApi::default()).await;
        assert!(absent.cache().is_synced());
        assert_eq!(absent.recorded(), RecordedAllocations::default());
        for status in [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED] {
            let api = FakeApi::default();
            api.reject(IP_POOLS, status);
            let records = watch(&api).await;
            assert!(records.cache().is_synced(), "pods without a Whereabouts range can start");
            let [unreadable] = &records.recorded().unreadable[..] else { panic!("{status}") };
            assert_eq!(unreadable.ranges, None, "every range is affected");
            assert!(unreadable.cause.contains("ippools.whereabouts.cni.cncf.io"), "{}", unreadable.cause);
        }
        let api = FakeApi::default();
        api.reject(IP_POOLS, StatusCode::SERVICE_UNAVAILABLE);
        assert!(!watch(&api).await.cache().is_synced(), "an outage tells nothing");
    }

    fn parse(name: &str, spec: Value) -> RecordedAllocations {
        let object = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec,
        });
        parse_pool(serde_json::from_value(object).unwrap()).1.unwrap()
    }

    #[test]
    fn ip_pool_that_cannot_be_read_blocks_its_range() {
        let record = json!({"id": "c", "podref": "ns/p", "ifname": "net1"});
        let read = parse("10.0.0.0-24", json!({"range": "10.0.0.0/24", "allocations": {"7": record}}));
        let [one] = &read.records[..] else { panic!("{read:?}") };
        assert_eq!((one.address.to_string().as_str(), one.pod.as_str()), ("10.0.0.7", "ns/p"));
        assert_eq!(
            (one.interface.as_deref(), one.ip_pool.as_str()),
            (Some("net1"), "kube-system/10.0.0.0-24")
        );
        assert!(read.unreadable.is_empty());

        let broken = [
            json!({"range": "10.0.0.0/24", "allocations": {"x": record}}),
            json!({"range": "10.0.0.0/24", "allocations": {"7": 3}}),
            json!({"range": "", "allocations": {"7": record}}),
            json!({"range": 7}),
            json!("x"),
        ];
        for spec in broken {
            let read = parse("10.0.0.0-24", spec.clone());
            let [unreadable] = &read.unreadable[..] else { panic!("{spec}") };
            let range = "10.0.0.0/24".parse().unwrap();
            assert!(unreadable.ranges.as_ref().is_some_and(|ranges| ranges.contains(&range)), "{spec}");
            assert!(unreadable.cause.contains("IPPool kube-system/10.0.0.0-24"), "{}", unreadable.cause);
        }
    }
}
