//! Publishes allocations from Whereabouts ranges as Whereabouts' IPPools and OverlappingRangeIPReservations, for tools
//! that read these objects. One object that cannot be written does not keep the others from being written.

use super::{
    caches::AddressCaches,
    whereabouts_objects::{COUNT_ANNOTATION, ProjectedObjects, ProjectedPool, project},
    write_pacer::WritePacer,
};
use crate::{
    ControllerContext, Error,
    last_events::LastEvents,
    object_writes::{FIELD_MANAGER, unless_outdated},
};
use ferroband_api::whereabouts::{IPPool, OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec};
use ferroband_daemon::{
    ApiKind, Controller,
    addresses::{MANAGED_LABEL, MANAGED_SELECTOR, is_managed},
    api_call::{ApiFailure, classify, with_timeout},
    apply, error_chain,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tracing::warn;

/// Namespace in which Whereabouts stores its objects by default.
pub const NAMESPACE: &str = "kube-system";
/// Shortest and longest pause between two writes of the same object.
const WRITE_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Pause after each write. The three values are the factor by which the duration of the write is multiplied,
/// and the minimum and maximum of the pause. The pauses leave the API server free for starting pods; readers
/// of Whereabouts objects can wait.
const OBJECT_PAUSE: (u32, Duration, Duration) = (4, Duration::from_millis(20), Duration::from_millis(400));
/// How long one pass writes. The next pass continues, with the addresses that changed meanwhile.
const PASS_BUDGET: Duration = Duration::from_secs(1);
/// Pause before an object that failed, or that Whereabouts itself created, is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The controller that publishes allocations as Whereabouts' IPPools and OverlappingRangeIPReservations.
pub struct WhereaboutsProjection {
    context: ControllerContext,
    caches: AddressCaches,
    pacer: WritePacer,
    problems: LastEvents,
    state: Mutex<ProjectionState>,
}

#[derive(Default)]
struct ProjectionState {
    /// The objects that are published; `None` before they are listed.
    published: Option<ProjectedObjects>,
    /// Until when an object is not tried again.
    postponed: BTreeMap<String, Instant>,
}

impl WhereaboutsProjection {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        let pacer = WritePacer::new(WRITE_PAUSE.0, WRITE_PAUSE.1);
        let (problems, state) = (LastEvents::default(), Mutex::default());
        Self { context: context.clone(), caches, pacer, problems, state }
    }

    fn desired(&self) -> ProjectedObjects {
        let blocks = self.caches.blocks.values();
        project(blocks.iter().map(|cached| &cached.block), self.context.settings.projection_limit)
    }
}

/// Lists the objects that Ferroband published. If the kind does not exist, there are none.
pub async fn list_published(client: &kube::Client) -> Result<ProjectedObjects, Error> {
    let parameters = ListParams::default().labels(MANAGED_SELECTOR);
    let pools: Api<IPPool> = Api::namespaced(client.clone(), NAMESPACE);
    let reservations: Api<OverlappingRangeIPReservation> = Api::namespaced(client.clone(), NAMESPACE);
    let listed = with_timeout(pools.list(&parameters)).await.map_err(Error::api("list", "IPPools"))?;
    let name = |pool: IPPool| (pool.name_any(), ProjectedPool::from_object(pool));
    let pools = listed.items.into_iter().map(name).collect();
    let listed = with_timeout(reservations.list(&parameters)).await;
    let listed = listed.map_err(Error::api("list", "OverlappingRangeIPReservations"))?;
    let reservations = listed.items.into_iter().map(|one| (one.name_any(), one.spec)).collect();
    Ok(ProjectedObjects { pools, reservations })
}

/// Writes or deletes an IPPool. Returns `false` and changes nothing if Whereabouts itself created it.
pub async fn write_pool(
    client: &kube::Client,
    name: &str,
    pool: Option<&ProjectedPool>,
    known: bool,
) -> Result<bool, Error> {
    let api: Api<IPPool> = Api::namespaced(client.clone(), NAMESPACE);
    let Some(pool) = pool else { return delete(&api, name).await };
    let mut object = IPPool::new(name, pool.spec.clone());
    let count = pool.count.map(|count| (COUNT_ANNOTATION.to_owned(), count.to_string()));
    object.metadata.annotations = count.map(|count| [count].into());
    // An IPPool always uses server-side apply: fields set by a create call have another owner, so a later apply could
    // not remove them.
    write(&api, name, object, known, false).await
}

/// Writes or deletes an OverlappingRangeIPReservation. Returns `false` and changes nothing if Whereabouts itself created
/// it.
pub async fn write_reservation(
    client: &kube::Client,
    name: &str,
    spec: Option<&OverlappingRangeIPReservationSpec>,
    known: bool,
) -> Result<bool, Error> {
    let api: Api<OverlappingRangeIPReservation> = Api::namespaced(client.clone(), NAMESPACE);
    let Some(spec) = spec else { return delete(&api, name).await };
    // These objects always have the same fields, so that a new one needs only a create call.
    write(&api, name, OverlappingRangeIPReservation::new(name, spec.clone()), known, true).await
}

async fn delete<K: ApiKind>(api: &Api<K>, name: &str) -> Result<bool, Error> {
    let deleted = with_timeout(api.delete(name, &DeleteParams::default())).await.map(drop);
    unless_outdated(deleted, "delete", format!("{} {name}", K::kind(&()))).map(|_| true)
}

async fn write<K: ApiKind + serde::Serialize>(
    api: &Api<K>,
    name: &str,
    object: K,
    known: bool,
    has_fixed_fields: bool,
) -> Result<bool, Error> {
    let written = apply_unless_foreign(api, name, object, known, has_fixed_fields).await;
    Ok(unless_outdated(written, "write", format!("{} {name}", K::kind(&())))?.unwrap_or(true))
}

/// Writes an object. Returns `false` and changes nothing if Whereabouts itself created it.
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

/// Returns the names of objects that differ between `before` and `after`.
fn changed_names<S: PartialEq>(before: &BTreeMap<String, S>, after: &BTreeMap<String, S>) -> Vec<String> {
    let updated = after.iter().filter(|(name, spec)| before.get(*name) != Some(spec)).map(|(name, _)| name);
    let deleted = before.keys().filter(|name| !after.contains_key(*name));
    updated.chain(deleted).cloned().collect()
}

/// Changes the entry of a published object, after it was written.
fn store<S: Clone>(published: &mut BTreeMap<String, S>, name: &str, spec: Option<&S>) {
    match spec {
        Some(spec) => drop(published.insert(name.to_owned(), spec.clone())),
        None => drop(published.remove(name)),
    }
}

impl Controller for WhereaboutsProjection {
    const NAME: &'static str = "Whereabouts projection";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let mut state = self.state.lock().await;
        let mut published = match state.published.take() {
            Some(published) => published,
            None => list_published(&self.context.client).await?,
        };
        let (after, client, begin) = (self.desired(), &self.context.client, Instant::now());
        let mut next: Option<Duration> = None;
        let pools = changed_names(&published.pools, &after.pools).into_iter().map(|name| (name, true));
        let reservations = changed_names(&published.reservations, &after.reservations);
        for (name, is_pool) in pools.chain(reservations.into_iter().map(|name| (name, false))) {
            let key = format!("{}{name}", if is_pool { "IPPool " } else { "" });
            let postponed = state.postponed.get(&key).and_then(|until| until.checked_duration_since(begin));
            if let Some(wait) = postponed.or_else(|| self.pacer.wait(&key)) {
                next = next.into_iter().chain([wait]).min();
                continue;
            }
            if begin.elapsed() >= PASS_BUDGET {
                next = Some(Duration::ZERO);
                break;
            }
            self.pacer.record(&key);
            let start = Instant::now();
            let written = match is_pool {
                true => {
                    let known = published.pools.contains_key(&name);
                    write_pool(client, &name, after.pools.get(&name), known).await
                }
                false => {
                    let known = published.reservations.contains_key(&name);
                    write_reservation(client, &name, after.reservations.get(&name), known).await
                }
            };
            let is_published = matches!(written, Ok(true));
            match (is_published, is_pool) {
                (true, true) => store(&mut published.pools, &name, after.pools.get(&name)),
                (true, false) => store(&mut published.reservations, &name, after.reservations.get(&name)),
                (false, _) => {
                    state.postponed.insert(key.clone(), begin + RETRY_PAUSE);
                    next = next.into_iter().chain([RETRY_PAUSE]).min();
                }
            }
            if let Err(e) = written {
                let error = error_chain(&e);
                if self.problems.insert_if_new(&key, &error) {
                    warn!(object = key, error, "cannot show assigned addresses in this object, retrying");
                }
            }
            sleep((start.elapsed() * OBJECT_PAUSE.0).clamp(OBJECT_PAUSE.1, OBJECT_PAUSE.2)).await;
        }
        state.postponed.retain(|_, until| *until > begin);
        let is_current = |name: &str| match name.strip_prefix("IPPool ") {
            Some(pool) => after.pools.contains_key(pool),
            None => after.reservations.contains_key(name),
        };
        self.pacer.retain(is_current);
        state.published = Some(published);
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
