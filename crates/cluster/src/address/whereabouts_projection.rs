//! Publishes allocations from Whereabouts ranges as Whereabouts' IPPools and OverlappingRangeIPReservations, for tools
//! that read these objects.

use super::caches::AddressCaches;
use crate::{
    ControllerContext, Error,
    object_writes::{FIELD_MANAGER, unless_outdated},
};
use ferroband_address::whereabouts::{allocation_key, reservation_name};
use ferroband_api::whereabouts::{
    IPPool, IPPoolSpec, IpAllocation, OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec,
};
use ferroband_daemon::{
    ApiKind, Controller,
    addresses::{MANAGED_LABEL, MANAGED_SELECTOR, is_managed},
    api_call::{ApiFailure, classify, with_timeout},
    apply,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, time::sleep};

/// Namespace in which Whereabouts stores its objects by default.
const NAMESPACE: &str = "kube-system";
/// Minimum time between two passes in which the controller writes objects.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after each write. The three values are the factor by which the duration of the write is multiplied,
/// and the minimum and maximum of the pause. The pauses leave the API server free for starting pods; readers
/// of Whereabouts objects can wait.
const WRITE_PAUSE: (u32, Duration, Duration) = (4, Duration::from_millis(20), Duration::from_millis(400));

/// The controller that publishes allocations as Whereabouts' IPPools and OverlappingRangeIPReservations.
pub struct WhereaboutsProjection {
    context: ControllerContext,
    caches: AddressCaches,
    last_projection: Mutex<Option<ProjectedObjects>>,
}

/// Specs of the IPPools and OverlappingRangeIPReservations to publish, by name.
#[derive(Clone, Debug, PartialEq)]
struct ProjectedObjects {
    computed_at: Instant,
    pools: BTreeMap<String, IPPoolSpec>,
    reservations: BTreeMap<String, OverlappingRangeIPReservationSpec>,
}

impl WhereaboutsProjection {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches, last_projection: Mutex::default() }
    }

    fn desired(&self) -> ProjectedObjects {
        let mut pools: BTreeMap<String, IPPoolSpec> = BTreeMap::new();
        let mut reservations = BTreeMap::new();
        for (_, cached) in self.caches.blocks.list() {
            let block = &cached.block;
            for (offset, entry) in block.entries.iter().filter(|(_, entry)| entry.pool.contains('/')) {
                let address = block.address(*offset);
                let Some(key) = allocation_key(&block.space, &entry.pool, address) else { continue };
                let allocation = IpAllocation {
                    id: entry.container.clone(),
                    podref: entry.pod.clone(),
                    ifname: Some(entry.interface.clone()),
                };
                let pool = pools
                    .entry(key.name)
                    .or_insert_with(|| IPPoolSpec { range: key.range, allocations: BTreeMap::new() });
                pool.allocations.insert(key.offset, allocation);
                if let Some(name) = reservation_name(&block.space, address) {
                    let spec = OverlappingRangeIPReservationSpec {
                        podref: entry.pod.clone(),
                        ifname: Some(entry.interface.clone()),
                        containerid: None,
                    };
                    reservations.insert(name, spec);
                }
            }
        }
        ProjectedObjects { computed_at: Instant::now(), pools, reservations }
    }

    async fn list_projected(&self) -> Result<ProjectedObjects, Error> {
        let parameters = ListParams::default().labels(MANAGED_SELECTOR);
        let pools: Api<IPPool> = Api::namespaced(self.context.client.clone(), NAMESPACE);
        let reservations: Api<OverlappingRangeIPReservation> =
            Api::namespaced(self.context.client.clone(), NAMESPACE);
        let listed = with_timeout(pools.list(&parameters)).await.map_err(Error::api("list", "IPPools"))?;
        let pools = listed.items.into_iter().map(|pool| (pool.name_any(), pool.spec)).collect();
        let listed = with_timeout(reservations.list(&parameters)).await;
        let listed = listed.map_err(Error::api("list", "OverlappingRangeIPReservations"))?;
        let reservations = listed.items.into_iter().map(|one| (one.name_any(), one.spec)).collect();
        Ok(ProjectedObjects { computed_at: Instant::now(), pools, reservations })
    }

    /// Writes the objects that differ between `before` and `after`. Objects that Whereabouts itself created
    /// are not written, and are removed from `after`.
    async fn write_changes(
        &self,
        before: &ProjectedObjects,
        after: &mut ProjectedObjects,
    ) -> Result<(), Error> {
        let pools: Api<IPPool> = Api::namespaced(self.context.client.clone(), NAMESPACE);
        let foreign = sync_objects(&pools, &before.pools, &after.pools, IPPool::new, false).await?;
        after.pools.retain(|name, _| !foreign.contains(name));
        let reservations: Api<OverlappingRangeIPReservation> =
            Api::namespaced(self.context.client.clone(), NAMESPACE);
        let new = OverlappingRangeIPReservation::new;
        let foreign =
            sync_objects(&reservations, &before.reservations, &after.reservations, new, true).await?;
        after.reservations.retain(|name, _| !foreign.contains(name));
        Ok(())
    }
}

/// Writes the objects that differ between `before` and `after`, with a pause after each. Returns the names of
/// objects that Whereabouts itself created, which are not changed.
///
/// `has_fixed_fields` is true for a kind whose objects always have the same fields. New objects are then written with
/// one create call. Other kinds always use server-side apply: fields set by a create call have another owner, so a later
/// apply could not remove them.
async fn sync_objects<K, S>(
    api: &Api<K>,
    before: &BTreeMap<String, S>,
    after: &BTreeMap<String, S>,
    new: fn(&str, S) -> K,
    has_fixed_fields: bool,
) -> Result<BTreeSet<String>, Error>
where
    K: ApiKind + serde::Serialize,
    S: Clone + PartialEq + serde::Serialize,
{
    let changed = after.iter().filter(|(name, spec)| before.get(*name) != Some(spec));
    let updates = changed.map(|(name, spec)| (name, Some(spec)));
    let deletions = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name, None));
    let mut foreign = BTreeSet::new();
    for (name, spec) in updates.chain(deletions) {
        let begin = Instant::now();
        let result = match spec {
            None => with_timeout(api.delete(name, &DeleteParams::default())).await.map(|_| true),
            Some(spec) => {
                let (object, known) = (new(name, spec.clone()), before.contains_key(name));
                apply_unless_foreign(api, name, object, known, has_fixed_fields).await
            }
        };
        if unless_outdated(result, "write", format!("{} {name}", K::kind(&())))? == Some(false) {
            foreign.insert(name.clone());
        }
        sleep((begin.elapsed() * WRITE_PAUSE.0).clamp(WRITE_PAUSE.1, WRITE_PAUSE.2)).await;
    }
    Ok(foreign)
}

/// Writes an object. Returns `false` and changes nothing if Whereabouts itself created it. Its addresses are safe,
/// because nodes do not assign addresses that Whereabouts has recorded.
async fn apply_unless_foreign<K: ApiKind + serde::Serialize>(
    api: &Api<K>,
    name: &str,
    mut object: K,
    known: bool,
    has_fixed_fields: bool,
) -> kube::Result<bool> {
    let (label, by) = MANAGED_LABEL;
    object.meta_mut().labels = Some([(label.to_owned(), by.to_owned())].into());
    if !known && has_fixed_fields {
        match with_timeout(api.create(&PostParams::default(), &object)).await {
            Ok(_) => return Ok(true),
            Err(e) if matches!(classify(&e), ApiFailure::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    if !known && with_timeout(api.get_opt(name)).await?.is_some_and(|found| !is_managed(&found)) {
        return Ok(false);
    }
    // Server-side apply also removes allocations that are no longer in `object`.
    let object = serde_json::to_value(&object).map_err(kube::Error::SerdeError)?;
    apply(api, FIELD_MANAGER, name, object).await.map(|_| true)
}

impl Controller for WhereaboutsProjection {
    const NAME: &'static str = "Whereabouts projection";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let mut last = self.last_projection.lock().await;
        let before = match last.take() {
            Some(before) if before.computed_at.elapsed() < MIN_WRITE_INTERVAL => {
                let wait = MIN_WRITE_INTERVAL - before.computed_at.elapsed();
                *last = Some(before);
                return Ok(Some(wait));
            }
            Some(before) => before,
            None => self.list_projected().await?,
        };
        let mut after = self.desired();
        let same = (&before.pools, &before.reservations) == (&after.pools, &after.reservations);
        if !same {
            // If a write fails, `last` stays empty, and the next pass lists the published objects again.
            self.write_changes(&before, &mut after).await?;
        }
        *last = Some(if same { before } else { after });
        Ok(None)
    }
}
