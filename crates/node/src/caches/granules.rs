//! The address granules.

use super::watching::{follow, map};
use crate::address::Ledger;
use ferroband_api::ferroband::AddressGranule;
use ferroband_daemon::addresses::granule_of;
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use std::sync::Arc;
use tracing::warn;

/// Keep `ledger` as the API server has it.
pub async fn watch(client: Client, ledger: Arc<Ledger>) {
    let api: Api<DeserializeGuard<AddressGranule>> = Api::all(client);
    // Few at once: a list of ten thousand is read within the memory of a small daemon.
    let config = watcher::Config::default().page_size(100);
    follow("address granules", api, config, |event| apply(&ledger, event)).await;
}

fn apply(ledger: &Ledger, event: Event<DeserializeGuard<AddressGranule>>) {
    let read = |object: DeserializeGuard<AddressGranule>| {
        let name = object.name_any();
        let read =
            object.0.map_err(|e| e.error).and_then(|object| granule_of(&object).map_err(|e| e.to_string()));
        read.inspect_err(|error| warn!(granule = name, error, "cannot be read; its addresses are left alone"))
            .ok()
    };
    match map(event, read) {
        Event::Init => ledger.list_begins(),
        Event::InitApply(Some((granule, version))) => ledger.listed(granule, version),
        Event::InitDone => ledger.list_ends(),
        Event::Apply(Some((granule, version))) => ledger.seen(granule, version),
        Event::Delete(Some((granule, _))) => ledger.gone(&granule.id()),
        Event::InitApply(None) | Event::Apply(None) | Event::Delete(None) => {}
    }
}
