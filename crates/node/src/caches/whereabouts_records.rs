//! Addresses in IPPools that Whereabouts manages. Ferroband never assigns these addresses.

use super::watch_cache::{WatchCache, map_event, watch_forever};
use crate::api_call::{ApiFailure, classify, with_timeout};
use ferroband_address::{IpSpace, whereabouts::parse_allocation_key};
use ferroband_api::whereabouts::IPPool;
use ferroband_daemon::addresses::UNMANAGED_SELECTOR;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::info;

/// Cache of the allocated addresses in IPPool objects. IPPools that Ferroband writes are left out.
#[derive(Clone)]
pub struct WhereaboutsRecords {
    cache: Arc<WatchCache<Vec<(IpSpace, IpAddr)>>>,
    client: Client,
}

impl WhereaboutsRecords {
    /// Creates an empty cache, which `watch` fills.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), client }
    }

    pub fn cache(&self) -> &WatchCache<Vec<(IpSpace, IpAddr)>> {
        &self.cache
    }

    /// Returns all addresses that Whereabouts has allocated, with their IP spaces.
    pub fn recorded_addresses(&self) -> Vec<(IpSpace, IpAddr)> {
        self.cache.list().into_iter().flat_map(|(_, addresses)| addresses.as_ref().clone()).collect()
    }

    /// Keeps the cache in sync with the IPPools. Never returns. In a cluster without the Whereabouts CRDs, the
    /// cache is empty and counts as synced.
    pub async fn watch(self) {
        let api: Api<DeserializeGuard<IPPool>> = Api::all(self.client.clone());
        let one = ListParams::default().limit(1);
        loop {
            match with_timeout(api.list(&one)).await.map_err(|e| classify(&e)) {
                Ok(_) => break,
                Err(ApiFailure::Unavailable) => sleep(Duration::from_secs(1)).await,
                Err(_) => {
                    info!("cannot list Whereabouts IPPools, assuming that Whereabouts is not installed");
                    self.cache.apply(Event::InitDone);
                    // Check again later, because Whereabouts may be installed at any time.
                    sleep(Duration::from_secs(60)).await;
                }
            }
        }
        let config = watcher::Config::default().labels(UNMANAGED_SELECTOR);
        watch_forever("Whereabouts IPPools", api, config, |event| {
            self.cache.apply(map_event(event, parse_pool));
        })
        .await;
    }
}

fn parse_pool(
    object: DeserializeGuard<IPPool>,
) -> (super::watch_cache::ObjectKey, Option<Vec<(IpSpace, IpAddr)>>) {
    let name = (object.namespace().unwrap_or_default(), object.name_any());
    let addresses = object.0.ok().map(|pool| {
        let keys = pool.spec.allocations.keys();
        keys.filter_map(|offset| parse_allocation_key(&name.1, &pool.spec.range, offset)).collect()
    });
    (name, addresses)
}
