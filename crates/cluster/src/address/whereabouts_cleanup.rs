//! Imports the allocation records that Whereabouts wrote into its IPPools, and removes each record when its
//! pod is gone.

use super::{
    caches::AddressCaches,
    legacy_import::{ImportDecision, LegacyAllocation, LegacyImporter},
};
use crate::{
    ControllerContext, Error,
    object_writes::{delete_object, delete_unchanged, get_object, unless_outdated},
};
use ferroband_address::{
    AddressAllocation, IpSpace,
    whereabouts::{node_slice_space, parse_allocation_key, reservation_name},
};
use ferroband_api::whereabouts::{IPPool, IpAllocation, OverlappingRangeIPReservation};
use ferroband_daemon::{Controller, addresses::is_managed, api_call::with_timeout};
use kube::{Api, ResourceExt, api::PostParams};
use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    time::Duration,
};
use tokio::sync::Mutex;
use tracing::info;

/// How often to recheck Whereabouts records for which it is not known yet whether a pod has the address.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The controller that imports Whereabouts records of running pods into AddressBlocks, and removes stale
/// records from Whereabouts' IPPools.
pub struct WhereaboutsCleanup {
    context: ControllerContext,
    caches: AddressCaches,
    importer: LegacyImporter,
    /// Whereabouts records that had an entry in an AddressBlock, by IP space, address and sandbox ID. When
    /// this entry is gone, its node has reported that the sandbox is gone, so the Whereabouts record is
    /// stale.
    known_in_blocks: Mutex<BTreeSet<(IpSpace, IpAddr, String)>>,
}

impl WhereaboutsCleanup {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        let importer = LegacyImporter::new(context, caches.clone());
        Self { context: context.clone(), caches, importer, known_in_blocks: Mutex::default() }
    }

    /// Returns the address that `pool` records under `offset`, and its IP space. An IPPool of a node slice has the name
    /// of a node where others have the name of a network.
    fn recorded_address(&self, pool: &IPPool, offset: &str) -> Option<(IpSpace, IpAddr)> {
        let (space, address) = parse_allocation_key(&pool.name_any(), &pool.spec.range, offset)?;
        let is_node = |name: &str| self.caches.nodes.get("", name).is_some();
        Some((node_slice_space(&space, is_node).unwrap_or(space), address))
    }

    /// Removes the records at `offsets` from the IPPool, and their OverlappingRangeIPReservations. An IPPool
    /// without records is deleted, because Whereabouts creates it again if needed.
    async fn remove_records(&self, pool: &IPPool, offsets: &BTreeSet<String>) -> Result<(), Error> {
        let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
        let api: Api<IPPool> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut remaining = pool.clone();
        remaining.spec.allocations.retain(|offset, _| !offsets.contains(offset));
        let written = if remaining.spec.allocations.is_empty() {
            // Delete the IPPool only if its resourceVersion is unchanged. If Whereabouts has added a record
            // since the IPPool was read, the deletion fails.
            delete_unchanged(&api, pool).await
        } else {
            with_timeout(api.replace(&name, &PostParams::default(), &remaining)).await.map(drop)
        };
        if unless_outdated(written, "write", format!("IPPool {namespace}/{name}"))?.is_none() {
            return Ok(());
        }
        info!(pool = name, records = offsets.len(), "stale Whereabouts records removed");
        for (offset, allocation) in pool.spec.allocations.iter().filter(|(key, _)| offsets.contains(*key)) {
            let Some((space, address)) = self.recorded_address(pool, offset) else { continue };
            if let Some(reservation) = reservation_name(&space, address) {
                self.delete_reservation(&namespace, &reservation, &allocation.podref).await?;
            }
        }
        Ok(())
    }

    async fn delete_reservation(&self, namespace: &str, name: &str, pod: &str) -> Result<(), Error> {
        let api: Api<OverlappingRangeIPReservation> = Api::namespaced(self.context.client.clone(), namespace);
        let found = get_object(&api, name).await?;
        if !found.is_some_and(|found| !is_managed(&found) && found.spec.podref == pod) {
            return Ok(());
        }
        delete_object(&api, name).await
    }
}

/// State of a Whereabouts record, compared with the AddressBlock entry for the same address.
#[derive(Debug, PartialEq)]
enum RecordState {
    /// The AddressBlock has an entry for the sandbox that the Whereabouts record names.
    Current,
    /// The AddressBlock entry for the sandbox that the Whereabouts record names is gone, or another sandbox
    /// of the same pod has the address.
    Stale,
    /// The AddressBlock never had an entry for the sandbox that the Whereabouts record names, or another pod
    /// has the address.
    Unknown,
}

fn record_state(entry: Option<&AddressAllocation>, allocation: &IpAllocation, known: bool) -> RecordState {
    match entry {
        Some(entry) if entry.container == allocation.id => RecordState::Current,
        Some(entry) if entry.pod == allocation.podref => RecordState::Stale,
        None if known => RecordState::Stale,
        _ => RecordState::Unknown,
    }
}

impl Controller for WhereaboutsCleanup {
    const NAME: &'static str = "Whereabouts cleanup";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let cached = self.caches.blocks.list();
        let entries: HashMap<(&IpSpace, IpAddr), &AddressAllocation> = cached
            .iter()
            .flat_map(|(_, cached)| {
                let block = &cached.block;
                block.entries.iter().map(|(at, entry)| ((&block.space, block.address(*at)), entry))
            })
            .collect();
        let mut known = self.known_in_blocks.lock().await;
        let (mut to_import, mut undecided) = (Vec::new(), false);
        for (_, pool) in self.caches.whereabouts_pools.list() {
            let mut stale = BTreeSet::new();
            for (offset, allocation) in &pool.spec.allocations {
                let Some((space, address)) = self.recorded_address(&pool, offset) else { continue };
                let entry = entries.get(&(&space, address)).copied();
                let key = (space.clone(), address, allocation.id.clone());
                match record_state(entry, allocation, known.contains(&key)) {
                    RecordState::Current => drop(known.insert(key)),
                    RecordState::Stale => drop(stale.insert(offset.clone())),
                    RecordState::Unknown if entry.is_some() => undecided = true,
                    RecordState::Unknown => {
                        let record = LegacyAllocation {
                            space,
                            address,
                            pod: allocation.podref.clone(),
                            uid: None,
                            interface: allocation.ifname.clone().filter(|name| !name.is_empty()),
                            container: Some(allocation.id.clone()),
                            pool: pool.spec.range.clone(),
                        };
                        match self.importer.decide(&record).await? {
                            ImportDecision::Import(entry) => to_import.push((record, entry)),
                            ImportDecision::Stale => drop(stale.insert(offset.clone())),
                            ImportDecision::Undecided => undecided = true,
                        }
                    }
                }
            }
            if !stale.is_empty() {
                self.remove_records(&pool, &stale).await?;
            }
        }
        self.importer.import(to_import).await?;
        Ok(undecided.then_some(RECHECK_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam W41
    #[test]
    fn a_record_is_removed_with_its_sandbox_and_never_because_of_another_pod() {
        let record = IpAllocation { id: "c".into(), podref: "ns/p".into(), ifname: None };
        let entry = |pod: &str, container: &str| AddressAllocation {
            pod: pod.into(),
            container: container.into(),
            ..AddressAllocation::default()
        };
        assert_eq!(record_state(Some(&entry("ns/p", "c")), &record, false), RecordState::Current);
        assert_eq!(record_state(Some(&entry("ns/p", "d")), &record, false), RecordState::Stale);
        assert_eq!(record_state(Some(&entry("ns/q", "d")), &record, true), RecordState::Unknown);
        assert_eq!(record_state(None, &record, true), RecordState::Stale);
        assert_eq!(record_state(None, &record, false), RecordState::Unknown);
    }
}
