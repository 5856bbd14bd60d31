//! Addresses in IPPools that Whereabouts manages, which Ferroband never assigns to other pods, and its configuration on the
//! node.
//!
//! ```text
//!  404: no such kind          ──▶ Whereabouts is not installed: nothing is recorded
//!  401, 403                   ──▶ the records are unknown: no range of type `whereabouts` assigns addresses
//!  an IPPool cannot be read   ──▶ its records are unknown: its range assigns no addresses
//! ```

use crate::api_call::{ApiFailure, classify, with_timeout};
use crate::error::error_chain;
use ferroband_address::whereabouts::{
    RecordedAllocation, RecordedAllocations, UnreadableRecords, parse_allocation_key, ranges_in_name,
};
use ferroband_api::whereabouts::IPPool;
use ferroband_daemon::addresses::UNMANAGED_SELECTOR;
use ferroband_daemon::watch_cache::ObjectKey;
use ferroband_daemon::{Retry, SharedCache, WatchCache, map_event, watch_forever};
use ferroband_kernel::Root;
use ferroband_model::ConfigObject;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
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

/// Possible paths of Whereabouts' flat file, which contains its node-wide configuration. The first path that
/// exists is used.
const FLAT_FILE_PATHS: [&str; 3] = [
    "etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/// Existing Whereabouts state that affects how an `ipam` object is read.
#[derive(Clone, Debug, Default)]
pub struct WhereaboutsLegacy {
    /// Content of Whereabouts' flat file, which provides defaults for `ipam`; empty if there is no flat file.
    pub flat_file: Map<String, Value>,
    /// Addresses that Whereabouts itself has assigned, which must not be assigned to other pods.
    pub recorded: RecordedAllocations,
}

impl WhereaboutsLegacy {
    /// Reads Whereabouts' flat file under `root`. A missing or broken file is ignored, because networks do
    /// not need it.
    pub fn read(root: &Root, recorded: RecordedAllocations) -> Self {
        let text = FLAT_FILE_PATHS.iter().find_map(|file| fs::read_to_string(root.path(file)).ok());
        let flat = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let ConfigObject(flat) = flat;
        Self { flat_file: flat, recorded }
    }
}

#[cfg(test)]
mod tests;
