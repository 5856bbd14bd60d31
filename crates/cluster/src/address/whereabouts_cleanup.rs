//! Removes outdated records from the IPPools of Whereabouts.

use super::foreign_records::{ForeignIpPool, ForeignRecord};
use crate::{
    ControllerContext, Error,
    object_writes::{delete_object, delete_unchanged, get_object, unless_outdated},
};
use ferroband_address::whereabouts::reservation_name;
use ferroband_api::whereabouts::{IPPool, OverlappingRangeIPReservation};
use ferroband_daemon::{addresses::is_managed, api_call::with_timeout};
use kube::{Api, api::PostParams};
use tracing::info;

/// Removes `records` from the IPPool, and their OverlappingRangeIPReservations. An IPPool without
/// records is deleted, because Whereabouts creates it again if needed.
pub async fn remove_records(
    context: &ControllerContext,
    cached: &ForeignIpPool,
    records: &[ForeignRecord],
) -> Result<(), Error> {
    let Ok(pool) = &cached.object else { return Ok(()) };
    let api: Api<IPPool> = Api::namespaced(context.client.clone(), &cached.namespace);
    let mut remaining = pool.clone();
    remaining.spec.allocations.retain(|key, _| !records.iter().any(|record| record.key == *key));
    let written = if remaining.spec.allocations.is_empty() {
        // Delete the IPPool only if its resourceVersion is unchanged. If Whereabouts has added a record since the
        // IPPool was read, the deletion fails.
        delete_unchanged(&api, pool).await
    } else {
        with_timeout(api.replace(&cached.name, &PostParams::default(), &remaining)).await.map(drop)
    };
    if unless_outdated(written, "write", cached.describe())?.is_none() {
        return Ok(());
    }
    info!(pool = cached.name, records = records.len(), "stale Whereabouts records removed");
    for record in records.iter().filter(|record| record.primary) {
        if let Some(reservation) = reservation_name(&record.slot.space, record.slot.address) {
            delete_reservation(context, &cached.namespace, &reservation, &record.pod).await?;
        }
    }
    Ok(())
}

async fn delete_reservation(
    context: &ControllerContext,
    namespace: &str,
    name: &str,
    pod: &str,
) -> Result<(), Error> {
    let api: Api<OverlappingRangeIPReservation> = Api::namespaced(context.client.clone(), namespace);
    let found = get_object(&api, name).await?;
    if !found.is_some_and(|found| !is_managed(&found) && found.spec.podref == pod) {
        return Ok(());
    }
    delete_object(&api, name).await
}
