//! Watches all AddressBlocks and applies the events to the block cache.

use crate::address::AddressBlockCache;
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::addresses::block_from_object;
use ferroband_daemon::{map_event, watch_forever};
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::sync::Arc;
use tracing::warn;

/// Keeps `cache` in sync with the API server. Never returns.
pub async fn watch_address_blocks(client: Client, cache: Arc<AddressBlockCache>) {
    let api: Api<DeserializeGuard<AddressBlock>> = Api::all(client);
    // Small pages, so that a list of ten thousand blocks fits into the memory of a small daemon.
    let config = watcher::Config::default().page_size(100);
    watch_forever("address blocks", api, config, |event| apply(&cache, event)).await;
}

fn apply(cache: &AddressBlockCache, event: Event<DeserializeGuard<AddressBlock>>) {
    let deleted = matches!(event, Event::Delete(_));
    let parse = |object: DeserializeGuard<AddressBlock>| {
        let name = object.name_any();
        let parsed = object
            .0
            .map_err(|e| e.error)
            .and_then(|object| block_from_object(&object).map_err(|e| e.to_string()));
        match parsed {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                warn!(block = name, error, "cannot parse the AddressBlock, its addresses are not assigned");
                match deleted {
                    true => cache.clear_unreadable(&name),
                    false => drop(cache.mark_unreadable(name)),
                }
                None
            }
        }
    };
    match map_event(event, parse) {
        Event::Init => cache.begin_list(),
        Event::InitApply(Some((block, version))) => cache.add_listed(block, version),
        Event::InitDone => cache.finish_list(),
        Event::Apply(Some((block, version))) => cache.apply_watched(block, version),
        Event::Delete(Some((block, version))) => cache.remove(&block.id(), &version),
        Event::InitApply(None) | Event::Apply(None) | Event::Delete(None) => {}
    }
}
