//! What Whereabouts itself has recorded: its addresses are somebody's, and are never given out.

use super::watching::{Cache, follow, map};
use crate::call::{Failure, bounded, failure};
use ferroband_address::{Space, whereabouts::recorded};
use ferroband_api::whereabouts::IPPool;
use ferroband_daemon::addresses::FOREIGN;
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
pub struct Foreign {
    cache: Arc<Cache<Vec<(Space, IpAddr)>>>,
    client: Client,
}

impl Foreign {
    /// None yet.
    pub fn new(client: Client) -> Self {
        Self { cache: Arc::default(), client }
    }

    /// For whoever waits for it to be complete.
    pub fn cache(&self) -> &Cache<Vec<(Space, IpAddr)>> {
        &self.cache
    }

    /// All addresses that are recorded, and in which space.
    pub fn taken(&self) -> Vec<(Space, IpAddr)> {
        self.cache.all().into_iter().flat_map(|(_, taken)| taken.as_ref().clone()).collect()
    }

    /// Follow them. A cluster that never had Whereabouts has no such kind; then there are none.
    pub async fn watch(self) {
        let api: Api<DeserializeGuard<IPPool>> = Api::all(self.client.clone());
        let one = ListParams::default().limit(1);
        loop {
            match bounded(api.list(&one)).await.map_err(|e| failure(&e)) {
                Ok(_) => break,
                Err(Failure::Away) => sleep(Duration::from_secs(1)).await,
                Err(_) => {
                    info!("Whereabouts keeps no records here");
                    self.cache.apply(Event::InitDone);
                    // It may come.
                    sleep(Duration::from_secs(60)).await;
                }
            }
        }
        let config = watcher::Config::default().labels(FOREIGN);
        follow("records of Whereabouts", api, config, |event| self.cache.apply(map(event, read))).await;
    }
}

fn read(object: DeserializeGuard<IPPool>) -> (super::watching::Name, Option<Vec<(Space, IpAddr)>>) {
    let name = (object.namespace().unwrap_or_default(), object.name_any());
    let taken = object.0.ok().map(|pool| {
        let keys = pool.spec.allocations.keys();
        keys.filter_map(|offset| recorded(&name.1, &pool.spec.range, offset)).collect()
    });
    (name, taken)
}
