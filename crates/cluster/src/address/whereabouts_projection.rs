//! Whereabouts' own records of what we assign: IPPools and reservations, for those who look there.

use super::caches::AddressCaches;
use crate::{Controller, ControllerContext, Error};
use ferroband_address::whereabouts::{allocation_key, reservation_name};
use ferroband_api::whereabouts::{
    IPPool, IPPoolSpec, IpAllocation, OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec,
};
use ferroband_daemon::{
    addresses::{MANAGED_LABEL, MANAGED_SELECTOR, is_managed},
    api_call::{ApiFailure, classify, with_timeout},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, time::sleep};

/// Where Whereabouts keeps them when nobody says otherwise.
const NAMESPACE: &str = "kube-system";
/// The shortest time between two rounds of writes.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after each write is so many times what the write took, within these bounds: whoever looks there can wait,
/// and pods that start need the API server more.
const WRITE_PAUSE: (u32, Duration, Duration) = (4, Duration::from_millis(20), Duration::from_millis(400));

/// The work.
pub struct WhereaboutsProjection {
    context: ControllerContext,
    caches: AddressCaches,
    last_projection: Mutex<Option<ProjectedObjects>>,
}

/// What the objects say that are ours.
#[derive(Clone, Debug, PartialEq)]
struct ProjectedObjects {
    computed_at: Instant,
    pools: BTreeMap<String, IPPoolSpec>,
    reservations: BTreeMap<String, OverlappingRangeIPReservationSpec>,
}

impl WhereaboutsProjection {
    /// Of these granules.
    pub fn new(context: &ControllerContext, books: AddressCaches) -> Self {
        Self { context: context.clone(), caches: books, last_projection: Mutex::default() }
    }

    /// What they should say.
    fn desired(&self) -> ProjectedObjects {
        let mut pools: BTreeMap<String, IPPoolSpec> = BTreeMap::new();
        let mut reservations = BTreeMap::new();
        for (_, seen) in self.caches.blocks.list() {
            let granule = &seen.block;
            for (offset, entry) in granule.entries.iter().filter(|(_, entry)| entry.pool.contains('/')) {
                let address = granule.address(*offset);
                let Some(place) = allocation_key(&granule.space, &entry.pool, address) else { continue };
                let allocation = IpAllocation {
                    id: entry.container.clone(),
                    podref: entry.pod.clone(),
                    ifname: Some(entry.interface.clone()),
                };
                let pool = pools
                    .entry(place.name)
                    .or_insert_with(|| IPPoolSpec { range: place.range, allocations: BTreeMap::new() });
                pool.allocations.insert(place.offset, allocation);
                if let Some(name) = reservation_name(&granule.space, address) {
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

    /// Write what differs, and leave out of `after` what somebody else shows.
    async fn write_changes(
        &self,
        before: &ProjectedObjects,
        after: &mut ProjectedObjects,
    ) -> Result<(), Error> {
        let pools: Api<IPPool> = Api::namespaced(self.context.client.clone(), NAMESPACE);
        let others = sync_objects(&pools, &before.pools, &after.pools, IPPool::new).await?;
        after.pools.retain(|name, _| !others.contains(name));
        let reservations: Api<OverlappingRangeIPReservation> =
            Api::namespaced(self.context.client.clone(), NAMESPACE);
        let new = OverlappingRangeIPReservation::new;
        let others = sync_objects(&reservations, &before.reservations, &after.reservations, new).await?;
        after.reservations.retain(|name, _| !others.contains(name));
        Ok(())
    }
}

/// A kind of theirs.
trait ProjectedKind:
    kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned
{
    /// Whether an object always has the same fields, so that it may be created in one call. Of one that was created so,
    /// and is applied later, no field ever goes: the API server takes the creator for another owner.
    const HAS_FIXED_FIELDS: bool;
}

impl ProjectedKind for IPPool {
    const HAS_FIXED_FIELDS: bool = false;
}

impl ProjectedKind for OverlappingRangeIPReservation {
    const HAS_FIXED_FIELDS: bool = true;
}

/// Make the objects say what they should; gives back the names of those that are not ours to change.
async fn sync_objects<K, S>(
    api: &Api<K>,
    before: &BTreeMap<String, S>,
    after: &BTreeMap<String, S>,
    new: fn(&str, S) -> K,
) -> Result<BTreeSet<String>, Error>
where
    K: ProjectedKind,
    S: Clone + PartialEq + serde::Serialize,
{
    let changed = after.iter().filter(|(name, spec)| before.get(*name) != Some(spec));
    let kept = changed.map(|(name, spec)| (name, Some(spec)));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name, None));
    let mut others = BTreeSet::new();
    for (name, spec) in kept.chain(gone) {
        let begin = Instant::now();
        let done = match spec {
            None => with_timeout(api.delete(name, &DeleteParams::default())).await.map(|_| true),
            Some(spec) => {
                apply_unless_foreign(api, name, new(name, spec.clone()), before.contains_key(name)).await
            }
        };
        match done {
            Err(e) if !matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => {
                return Err(Error::api("write", format!("{} {name}", K::kind(&())))(e));
            }
            Ok(false) => drop(others.insert(name.clone())),
            _ => {}
        }
        sleep((begin.elapsed() * WRITE_PAUSE.0).clamp(WRITE_PAUSE.1, WRITE_PAUSE.2)).await;
    }
    Ok(others)
}

/// Apply an object of ours. One that Whereabouts made itself stays as it is, and the answer is no: nodes leave its
/// addresses alone.
async fn apply_unless_foreign<K: ProjectedKind>(
    api: &Api<K>,
    name: &str,
    mut object: K,
    known: bool,
) -> kube::Result<bool> {
    let (label, by) = MANAGED_LABEL;
    object.meta_mut().labels = Some([(label.to_owned(), by.to_owned())].into());
    if !known && K::HAS_FIXED_FIELDS {
        match with_timeout(api.create(&PostParams::default(), &object)).await {
            Ok(_) => return Ok(true),
            Err(e) if matches!(classify(&e), ApiFailure::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    if !known && with_timeout(api.get_opt(name)).await?.is_some_and(|found| !is_managed(&found)) {
        return Ok(false);
    }
    // Applied, so that entries which are gone go from the object too.
    let parameters = PatchParams::apply("ferroband-cluster").force();
    with_timeout(api.patch(name, &parameters, &Patch::Apply(&object))).await.map(|_| true)
}

impl Controller for WhereaboutsProjection {
    const NAME: &'static str = "showing ranges";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !self.caches.blocks.is_synced() {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        let mut shown = self.last_projection.lock().await;
        let before = match shown.take() {
            Some(before) if before.computed_at.elapsed() < MIN_WRITE_INTERVAL => {
                let left = MIN_WRITE_INTERVAL - before.computed_at.elapsed();
                *shown = Some(before);
                return Ok(Some(left));
            }
            Some(before) => before,
            None => self.list_projected().await?,
        };
        let mut after = self.desired();
        let same = (&before.pools, &before.reservations) == (&after.pools, &after.reservations);
        if !same {
            // On failure nothing is remembered, and the objects are listed again.
            self.write_changes(&before, &mut after).await?;
        }
        *shown = Some(if same { before } else { after });
        Ok(None)
    }
}
