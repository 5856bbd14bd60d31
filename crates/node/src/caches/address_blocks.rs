//! The address granules.

use super::watch_cache::{map_event, watch_forever};
use crate::address::AddressBlockCache;
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::addresses::block_from_object;
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::sync::Arc;
use tracing::warn;

/// Keep `ledger` as the API server has it.
pub async fn watch_address_blocks(client: Client, ledger: Arc<AddressBlockCache>) {
    let api: Api<DeserializeGuard<AddressBlock>> = Api::all(client);
    // Few at once: a list of ten thousand is read within the memory of a small daemon.
    let config = watcher::Config::default().page_size(100);
    watch_forever("address granules", api, config, |event| apply(&ledger, event)).await;
}

fn apply(ledger: &AddressBlockCache, event: Event<DeserializeGuard<AddressBlock>>) {
    let read = |object: DeserializeGuard<AddressBlock>| {
        let name = object.name_any();
        let read = object
            .0
            .map_err(|e| e.error)
            .and_then(|object| block_from_object(&object).map_err(|e| e.to_string()));
        read.inspect_err(|error| warn!(granule = name, error, "cannot be read; its addresses are left alone"))
            .ok()
    };
    match map_event(event, read) {
        Event::Init => ledger.begin_list(),
        Event::InitApply(Some((granule, version))) => ledger.add_listed(granule, version),
        Event::InitDone => ledger.finish_list(),
        Event::Apply(Some((granule, version))) => ledger.apply_watched(granule, version),
        Event::Delete(Some((granule, _))) => ledger.remove(&granule.id()),
        Event::InitApply(None) | Event::Apply(None) | Event::Delete(None) => {}
    }
}
