//! Whereabouts' own records of what we assign: IPPools and reservations, for those who look there.

use super::books::Books;
use crate::{Context, Error, Work};
use ferroband_address::whereabouts::{pool_object, reservation_object};
use ferroband_api::whereabouts::{
    IPPool, IPPoolSpec, IpAllocation, OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec,
};
use ferroband_daemon::{
    addresses::{MANAGED, OWN, is_ours},
    call::{Failure, bounded, failure},
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
const RARELY: Duration = Duration::from_secs(10);
/// The pause after each write is so many times what the write took, within these bounds: whoever looks there can wait,
/// and pods that start need the API server more.
const PACE: (u32, Duration, Duration) = (4, Duration::from_millis(20), Duration::from_millis(400));

/// The work.
pub struct Ranges {
    context: Context,
    books: Books,
    shown: Mutex<Option<Shown>>,
}

/// What the objects say that are ours.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    at: Instant,
    pools: BTreeMap<String, IPPoolSpec>,
    reservations: BTreeMap<String, OverlappingRangeIPReservationSpec>,
}

impl Ranges {
    /// Of these granules.
    pub fn new(context: &Context, books: Books) -> Self {
        Self { context: context.clone(), books, shown: Mutex::default() }
    }

    /// What they should say.
    fn wanted(&self) -> Shown {
        let mut pools: BTreeMap<String, IPPoolSpec> = BTreeMap::new();
        let mut reservations = BTreeMap::new();
        for (_, seen) in self.books.granules.all() {
            let granule = &seen.granule;
            for (offset, entry) in granule.entries.iter().filter(|(_, entry)| entry.pool.contains('/')) {
                let address = granule.address(*offset);
                let Some(place) = pool_object(&granule.space, &entry.pool, address) else { continue };
                let allocation = IpAllocation {
                    id: entry.container.clone(),
                    podref: entry.pod.clone(),
                    ifname: Some(entry.interface.clone()),
                };
                let pool = pools
                    .entry(place.name)
                    .or_insert_with(|| IPPoolSpec { range: place.range, allocations: BTreeMap::new() });
                pool.allocations.insert(place.offset, allocation);
                if let Some(name) = reservation_object(&granule.space, address) {
                    let spec = OverlappingRangeIPReservationSpec {
                        podref: entry.pod.clone(),
                        ifname: Some(entry.interface.clone()),
                        containerid: None,
                    };
                    reservations.insert(name, spec);
                }
            }
        }
        Shown { at: Instant::now(), pools, reservations }
    }

    async fn list(&self) -> Result<Shown, Error> {
        let parameters = ListParams::default().labels(OWN);
        let pools: Api<IPPool> = Api::namespaced(self.context.client.clone(), NAMESPACE);
        let reservations: Api<OverlappingRangeIPReservation> =
            Api::namespaced(self.context.client.clone(), NAMESPACE);
        let listed = bounded(pools.list(&parameters)).await.map_err(Error::api("list", "IPPools"))?;
        let pools = listed.items.into_iter().map(|pool| (pool.name_any(), pool.spec)).collect();
        let listed = bounded(reservations.list(&parameters)).await;
        let listed = listed.map_err(Error::api("list", "OverlappingRangeIPReservations"))?;
        let reservations = listed.items.into_iter().map(|one| (one.name_any(), one.spec)).collect();
        Ok(Shown { at: Instant::now(), pools, reservations })
    }

    /// Write what differs, and leave out of `after` what somebody else shows.
    async fn write(&self, before: &Shown, after: &mut Shown) -> Result<(), Error> {
        let pools: Api<IPPool> = Api::namespaced(self.context.client.clone(), NAMESPACE);
        let others = change(&pools, &before.pools, &after.pools, IPPool::new).await?;
        after.pools.retain(|name, _| !others.contains(name));
        let reservations: Api<OverlappingRangeIPReservation> =
            Api::namespaced(self.context.client.clone(), NAMESPACE);
        let new = OverlappingRangeIPReservation::new;
        let others = change(&reservations, &before.reservations, &after.reservations, new).await?;
        after.reservations.retain(|name, _| !others.contains(name));
        Ok(())
    }
}

/// A kind of theirs.
trait Projection:
    kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned
{
    /// Whether an object always has the same fields, so that it may be created in one call. Of one that was created so,
    /// and is applied later, no field ever goes: the API server takes the creator for another owner.
    const FIXED: bool;
}

impl Projection for IPPool {
    const FIXED: bool = false;
}

impl Projection for OverlappingRangeIPReservation {
    const FIXED: bool = true;
}

/// Make the objects say what they should; gives back the names of those that are not ours to change.
async fn change<K, S>(
    api: &Api<K>,
    before: &BTreeMap<String, S>,
    after: &BTreeMap<String, S>,
    new: fn(&str, S) -> K,
) -> Result<BTreeSet<String>, Error>
where
    K: Projection,
    S: Clone + PartialEq + serde::Serialize,
{
    let changed = after.iter().filter(|(name, spec)| before.get(*name) != Some(spec));
    let kept = changed.map(|(name, spec)| (name, Some(spec)));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name, None));
    let mut others = BTreeSet::new();
    for (name, spec) in kept.chain(gone) {
        let begin = Instant::now();
        let done = match spec {
            None => bounded(api.delete(name, &DeleteParams::default())).await.map(|_| true),
            Some(spec) => put(api, name, new(name, spec.clone()), before.contains_key(name)).await,
        };
        match done {
            Err(e) if !matches!(failure(&e), Failure::Conflict | Failure::NotFound) => {
                return Err(Error::api("write", format!("{} {name}", K::kind(&())))(e));
            }
            Ok(false) => drop(others.insert(name.clone())),
            _ => {}
        }
        sleep((begin.elapsed() * PACE.0).clamp(PACE.1, PACE.2)).await;
    }
    Ok(others)
}

/// Apply an object of ours. One that Whereabouts made itself stays as it is, and the answer is no: nodes leave its
/// addresses alone.
async fn put<K: Projection>(api: &Api<K>, name: &str, mut object: K, known: bool) -> kube::Result<bool> {
    let (label, by) = MANAGED;
    object.meta_mut().labels = Some([(label.to_owned(), by.to_owned())].into());
    if !known && K::FIXED {
        match bounded(api.create(&PostParams::default(), &object)).await {
            Ok(_) => return Ok(true),
            Err(e) if matches!(failure(&e), Failure::Conflict) => {}
            Err(e) => return Err(e),
        }
    }
    if !known && bounded(api.get_opt(name)).await?.is_some_and(|found| !is_ours(&found)) {
        return Ok(false);
    }
    // Applied, so that entries which are gone go from the object too.
    let parameters = PatchParams::apply("ferroband-cluster").force();
    bounded(api.patch(name, &parameters, &Patch::Apply(&object))).await.map(|_| true)
}

impl Work for Ranges {
    const NAME: &'static str = "showing ranges";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        if !self.books.granules.is_complete() {
            return Ok(Some(RARELY));
        }
        let mut shown = self.shown.lock().await;
        let before = match shown.take() {
            Some(before) if before.at.elapsed() < RARELY => {
                let left = RARELY - before.at.elapsed();
                *shown = Some(before);
                return Ok(Some(left));
            }
            Some(before) => before,
            None => self.list().await?,
        };
        let mut after = self.wanted();
        let same = (&before.pools, &before.reservations) == (&after.pools, &after.reservations);
        if !same {
            // On failure nothing is remembered, and the objects are listed again.
            self.write(&before, &mut after).await?;
        }
        *shown = Some(if same { before } else { after });
        Ok(None)
    }
}
