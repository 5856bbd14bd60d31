//! What Whereabouts itself has recorded: its addresses are somebody's, and are never given out.

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

/// The records of Whereabouts.
#[derive(Clone)]
pub struct WhereaboutsRecords {
    cache: Arc<WatchCache<Vec<(IpSpace, IpAddr)>>>,
    client: Client,
}

impl WhereaboutsRecords {
    /// None yet.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), client }
    }

    /// For whoever waits for it to be complete.
    pub fn cache(&self) -> &WatchCache<Vec<(IpSpace, IpAddr)>> {
        &self.cache
    }

    /// All addresses that are recorded, and in which space.
    pub fn recorded_addresses(&self) -> Vec<(IpSpace, IpAddr)> {
        self.cache.list().into_iter().flat_map(|(_, taken)| taken.as_ref().clone()).collect()
    }

    /// Follow them. A cluster that never had Whereabouts has no such kind; then there are none.
    pub async fn watch(self) {
        let api: Api<DeserializeGuard<IPPool>> = Api::all(self.client.clone());
        let one = ListParams::default().limit(1);
        loop {
            match with_timeout(api.list(&one)).await.map_err(|e| classify(&e)) {
                Ok(_) => break,
                Err(ApiFailure::Unavailable) => sleep(Duration::from_secs(1)).await,
                Err(_) => {
                    info!("Whereabouts keeps no records here");
                    self.cache.apply(Event::InitDone);
                    // It may come.
                    sleep(Duration::from_secs(60)).await;
                }
            }
        }
        let config = watcher::Config::default().labels(UNMANAGED_SELECTOR);
        watch_forever("records of Whereabouts", api, config, |event| {
            self.cache.apply(map_event(event, parse_pool));
        })
        .await;
    }
}

fn parse_pool(
    object: DeserializeGuard<IPPool>,
) -> (super::watch_cache::ObjectKey, Option<Vec<(IpSpace, IpAddr)>>) {
    let name = (object.namespace().unwrap_or_default(), object.name_any());
    let taken = object.0.ok().map(|pool| {
        let keys = pool.spec.allocations.keys();
        keys.filter_map(|offset| parse_allocation_key(&name.1, &pool.spec.range, offset)).collect()
    });
    (name, taken)
}
