//! Whereabouts' own records, struck out one by one as their pods go.

use super::{
    caches::AddressCaches,
    legacy_import::{ImportDecision, LegacyAllocation, LegacyImporter},
};
use crate::{Controller, ControllerContext, Error};
use ferroband_address::{
    AddressAllocation, IpSpace,
    whereabouts::{parse_allocation_key, reservation_name},
};
use ferroband_api::whereabouts::{IPPool, IpAllocation, OverlappingRangeIPReservation};
use ferroband_daemon::{
    addresses::is_managed,
    api_call::{ApiFailure, classify, with_timeout},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    time::Duration,
};
use tokio::sync::Mutex;
use tracing::info;

/// How often records that nothing can be said of are looked at.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The work.
pub struct WhereaboutsCleanup {
    context: ControllerContext,
    caches: AddressCaches,
    importer: LegacyImporter,
    /// Records that were seen in the granules: when they are not there any more, their sandboxes are gone.
    known_in_blocks: Mutex<BTreeSet<(IpSpace, IpAddr, String)>>,
}

impl WhereaboutsCleanup {
    /// Of these books.
    pub fn new(context: &ControllerContext, books: AddressCaches) -> Self {
        let before = LegacyImporter::new(context, books.clone());
        Self { context: context.clone(), caches: books, importer: before, known_in_blocks: Mutex::default() }
    }

    /// Write the pool without the records at `offsets`. An empty one goes: Whereabouts makes it again if it needs it.
    async fn remove_records(&self, pool: &IPPool, offsets: &BTreeSet<String>) -> Result<(), Error> {
        let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
        let api: Api<IPPool> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut left = pool.clone();
        left.spec.allocations.retain(|offset, _| !offsets.contains(offset));
        let written = if left.spec.allocations.is_empty() {
            // Exactly this state: whoever writes a record meanwhile wins.
            let preconditions = Preconditions { resource_version: pool.resource_version(), uid: pool.uid() };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            with_timeout(api.delete(&name, &parameters)).await.map(drop)
        } else {
            with_timeout(api.replace(&name, &PostParams::default(), &left)).await.map(drop)
        };
        match written {
            Ok(()) => info!(pool = name, records = offsets.len(), "struck out"),
            // The next pass sees how it is.
            Err(e) if matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => return Ok(()),
            Err(e) => return Err(Error::api("write", format!("IPPool {namespace}/{name}"))(e)),
        }
        for (offset, allocation) in pool.spec.allocations.iter().filter(|(key, _)| offsets.contains(*key)) {
            let Some((space, address)) = parse_allocation_key(&name, &pool.spec.range, offset) else {
                continue;
            };
            if let Some(reservation) = reservation_name(&space, address) {
                self.delete_reservation(&namespace, &reservation, &allocation.podref).await?;
            }
        }
        Ok(())
    }

    async fn delete_reservation(&self, namespace: &str, name: &str, pod: &str) -> Result<(), Error> {
        let api: Api<OverlappingRangeIPReservation> = Api::namespaced(self.context.client.clone(), namespace);
        let what = || format!("OverlappingRangeIPReservation {namespace}/{name}");
        let found = with_timeout(api.get_opt(name)).await.map_err(Error::api("get", what()))?;
        if !found.is_some_and(|found| !is_managed(&found) && found.spec.podref == pod) {
            return Ok(());
        }
        match with_timeout(api.delete(name, &DeleteParams::default())).await {
            Err(e) if classify(&e) != ApiFailure::NotFound => Err(Error::api("delete", what())(e)),
            _ => Ok(()),
        }
    }
}

/// What a record is to the books.
#[derive(Debug, PartialEq)]
enum RecordState {
    /// It stands there.
    Current,
    /// It does not any more, or another sandbox of the pod has the address.
    Stale,
    /// It does not, or somebody else has the address.
    Unknown,
}

fn record_state(entry: Option<&AddressAllocation>, allocation: &IpAllocation, stood: bool) -> RecordState {
    match entry {
        Some(entry) if entry.container == allocation.id => RecordState::Current,
        Some(entry) if entry.pod == allocation.podref => RecordState::Stale,
        None if stood => RecordState::Stale,
        _ => RecordState::Unknown,
    }
}

impl Controller for WhereaboutsCleanup {
    const NAME: &'static str = "taking over ranges";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let AddressCaches { blocks: granules, whereabouts_pools: ranges, stateful_sets: sets, .. } =
            &self.caches;
        if !(granules.is_synced() && ranges.is_synced() && sets.is_synced()) {
            return Ok(Some(RECHECK_INTERVAL));
        }
        let seen = granules.list();
        let entries: HashMap<(&IpSpace, IpAddr), &AddressAllocation> = seen
            .iter()
            .flat_map(|(_, seen)| {
                let granule = &seen.block;
                granule.entries.iter().map(|(at, entry)| ((&granule.space, granule.address(*at)), entry))
            })
            .collect();
        let mut stood = self.known_in_blocks.lock().await;
        let (mut right, mut open) = (Vec::new(), false);
        for (_, pool) in ranges.list() {
            let mut over = BTreeSet::new();
            for (offset, allocation) in &pool.spec.allocations {
                let Some((space, address)) = parse_allocation_key(&pool.name_any(), &pool.spec.range, offset)
                else {
                    continue;
                };
                let entry = entries.get(&(&space, address)).copied();
                let key = (space.clone(), address, allocation.id.clone());
                match record_state(entry, allocation, stood.contains(&key)) {
                    RecordState::Current => drop(stood.insert(key)),
                    RecordState::Stale => drop(over.insert(offset.clone())),
                    RecordState::Unknown if entry.is_some() => open = true,
                    RecordState::Unknown => {
                        let claim = LegacyAllocation {
                            space,
                            address,
                            pod: allocation.podref.clone(),
                            uid: None,
                            interface: allocation.ifname.clone().filter(|name| !name.is_empty()),
                            container: Some(allocation.id.clone()),
                            pool: pool.spec.range.clone(),
                        };
                        match self.importer.decide(&claim).await? {
                            ImportDecision::Import(entry) => right.push((claim, entry)),
                            ImportDecision::Stale => drop(over.insert(offset.clone())),
                            ImportDecision::Undecided => open = true,
                        }
                    }
                }
            }
            if !over.is_empty() {
                self.remove_records(&pool, &over).await?;
            }
        }
        self.importer.import(right).await?;
        Ok(open.then_some(RECHECK_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn w41_a_record_goes_when_its_sandbox_does_and_never_for_somebody_else() {
        let record = IpAllocation { id: "c".into(), podref: "ns/p".into(), ifname: None };
        let entry = |pod: &str, container: &str| -> AddressAllocation {
            let entry =
                json!({"pod": pod, "uid": "u", "interface": "net1", "container": container, "node": "n"});
            serde_json::from_value(entry).unwrap()
        };
        assert_eq!(record_state(Some(&entry("ns/p", "c")), &record, false), RecordState::Current);
        assert_eq!(record_state(Some(&entry("ns/p", "d")), &record, false), RecordState::Stale);
        assert_eq!(record_state(Some(&entry("ns/q", "d")), &record, true), RecordState::Unknown);
        assert_eq!(record_state(None, &record, true), RecordState::Stale);
        assert_eq!(record_state(None, &record, false), RecordState::Unknown);
    }
}
