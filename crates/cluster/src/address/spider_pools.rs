//! Projection of address blocks into SpiderIPPools: records, counts and the Ready condition.

use super::{
    caches::AddressCaches,
    foreign_records::is_placeholder,
    pool_status::{
        PoolAllocations, conflict_reason, count, ip_version_patch, metadata_patch, ready_message,
        status_patch, status_records, total_addresses, unreadable_message,
    },
    record_import::OutdatedRecords,
    spider_endpoints,
    upstream_lease::SpiderpoolLease,
    write_pacer::WritePacer,
};
use crate::{ControllerContext, Error, last_events::LastEvents, object_writes::unless_outdated};
use ferroband_address::{
    AddressAllocation, IpBlockId, IpSpace,
    spiderpool::{IpPool, find_conflicts},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderIPPoolStatus};
use ferroband_daemon::{
    Controller,
    addresses::{SpiderpoolRecord, UnreadableStatus, allocation_records, parse_pool},
    api_call::{ApiFailure, classify, with_timeout},
    condition, error_chain, merge_patch,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use tracing::warn;

/// Shortest and longest pause between two writes of the same SpiderIPPool's status.
const WRITE_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Pause after a failed write of one object.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The controller that writes the status of SpiderIPPools, and SpiderEndpoints.
pub struct SpiderPoolController {
    context: ControllerContext,
    caches: AddressCaches,
    lease: Arc<SpiderpoolLease>,
    outdated: OutdatedRecords,
    pacer: WritePacer,
    problems: LastEvents,
}

impl SpiderPoolController {
    pub fn new(
        context: &ControllerContext,
        caches: AddressCaches,
        lease: Arc<SpiderpoolLease>,
        outdated: OutdatedRecords,
    ) -> Self {
        let pacer = WritePacer::new(WRITE_PAUSE.0, WRITE_PAUSE.1);
        Self { context: context.clone(), caches, lease, outdated, pacer, problems: LastEvents::default() }
    }

    /// Returns the records of Spiderpool that stay in the pool's status: those that are not imported yet, and those of
    /// addresses that another pod has.
    fn remaining_records(
        &self,
        pool: &SpiderIPPool,
        recorded: Vec<(IpAddr, SpiderpoolRecord)>,
    ) -> Vec<(IpAddr, SpiderpoolRecord)> {
        let (name, outdated) = (pool.name_any(), self.outdated.lock());
        let stays = |(address, record): &(IpAddr, SpiderpoolRecord)| {
            let (id, offset) = IpBlockId::containing(&IpSpace::default_space(), *address);
            let cached = self.caches.blocks.get("", &id.object_name());
            let entry = cached.as_ref().and_then(|cached| cached.block.entries.get(&offset));
            let is_imported = |entry: &AddressAllocation| entry.pod == record.pod && !is_placeholder(entry);
            !record.is_managed()
                && !outdated.contains(&(name.clone(), *address))
                && !entry.is_some_and(is_imported)
        };
        recorded.into_iter().filter(stays).collect()
    }

    /// Returns the status of a pool, and whether addresses of it are in use. `own` has the entries of the pool, unless
    /// they exceed the limit; `used` is their number.
    fn status(
        &self,
        pool: &SpiderIPPool,
        parsed: &Result<IpPool, ferroband_address::Error>,
        conflict: Option<(&'static str, String)>,
        (own, used): (Option<&PoolAllocations<'_>>, usize),
    ) -> (SpiderIPPoolStatus, bool) {
        let recorded = allocation_records(pool);
        let unlisted = Some(used).filter(|used| own.is_none() && *used > 0);
        let (ready, reason, message) = match (parsed, &recorded, conflict) {
            (Err(e), ..) => (false, "Invalid", e.to_string()),
            (Ok(_), Err(e), _) => (false, "RecordsUnreadable", unreadable_message(e)),
            (Ok(_), Ok(_), Some((reason, message))) => (false, reason, message),
            (Ok(pool), Ok(_), None) => (true, "Ready", ready_message(pool, unlisted)),
        };
        let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let ready = Condition {
            observed_generation: pool.metadata.generation,
            ..condition(before, "Ready", Some(ready), reason, message)
        };
        let total_ip_count = Some(total_addresses(parsed.as_ref().ok()));
        let recorded: Result<_, UnreadableStatus> =
            recorded.map(|records| self.remaining_records(pool, records));
        let Ok(foreign) = recorded else {
            // The records stay as they are, for an administrator to correct.
            let before = pool.status.clone().unwrap_or_default();
            return (SpiderIPPoolStatus { total_ip_count, conditions: vec![ready], ..before }, true);
        };
        let none = PoolAllocations::new();
        let records = status_records(own.unwrap_or(&none), foreign);
        let allocated_ips = serde_json::to_string(&records).ok().filter(|_| !records.is_empty());
        let number = used.max(records.len());
        let status = SpiderIPPoolStatus {
            allocated_ip_count: Some(count(number)),
            total_ip_count,
            allocated_ips,
            conditions: vec![ready],
        };
        (status, number > 0)
    }

    /// Updates the finalizer, the label, `spec.ipVersion` and the status of a SpiderIPPool. Returns how long the status
    /// must wait, if it was written a short time ago.
    async fn update_pool(
        &self,
        pool: &SpiderIPPool,
        parsed: Option<&IpPool>,
        (status, used): (SpiderIPPoolStatus, bool),
    ) -> Result<Option<Duration>, Error> {
        let name = pool.name_any();
        let api: Api<SpiderIPPool> = Api::all(self.context.client.clone());
        let what = format!("SpiderIPPool {name}");
        let metadata = metadata_patch(pool, parsed, used);
        if let Some(patch) = &metadata {
            unless_outdated(merge_patch(&api, &name, patch).await, "patch", &what)?;
        }
        // A patch of the metadata changes the resource version, so the spec is patched in the next pass.
        if let (None, Some(patch)) = (metadata, ip_version_patch(pool, parsed)) {
            match merge_patch(&api, &name, &patch).await {
                // The webhook checks the whole spec. A spec that it rejects must not keep the status from being written.
                Err(e) if classify(&e) == ApiFailure::Rejected => {
                    warn!(pool = name, error = error_chain(&e), "cannot set spec.ipVersion");
                }
                result => {
                    unless_outdated(result, "patch", &what)?;
                }
            }
        }
        if pool.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        if let Some(wait) = self.pacer.wait(&name) {
            return Ok(Some(wait));
        }
        let patch = status_patch(&status);
        self.pacer.record(&name);
        let patched =
            with_timeout(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        unless_outdated(patched, "patch the status of", what).map(|_| None)
    }

    /// Logs a failure that concerns one object only. The other objects are written nevertheless.
    fn report(&self, object: &str, error: &Error) {
        let error = error_chain(error);
        if self.problems.insert_if_new(object, &error) {
            warn!(object, error, "cannot show assigned addresses in this object, retrying");
        }
    }
}

impl Controller for SpiderPoolController {
    const NAME: &'static str = "SpiderIPPools";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if self.lease.holder().await?.is_some() {
            return Ok(Some(RETRY_PAUSE));
        }
        let blocks = self.caches.blocks.values();
        let in_default = blocks.iter().filter(|cached| cached.block.space == IpSpace::default_space());
        let mut used: HashMap<&str, usize> = HashMap::new();
        for entry in in_default.clone().flat_map(|cached| cached.block.entries.values()) {
            *used.entry(&entry.pool).or_default() += 1;
        }
        let limit = self.context.settings.projection_limit;
        // Names of Whereabouts ranges contain a slash.
        let is_shown = |pool: &str| !pool.contains('/') && used.get(pool).is_none_or(|used| *used <= limit);
        let mut allocations: HashMap<&str, PoolAllocations<'_>> = HashMap::new();
        for cached in in_default {
            for (offset, entry) in cached.block.entries.iter().filter(|(_, entry)| is_shown(&entry.pool)) {
                allocations.entry(&entry.pool).or_default().insert(cached.block.address(*offset), entry);
            }
        }
        let mut pools = self.caches.ip_pools.cache.values();
        // Oldest first: of two pools that overlap, the older one is accepted and the other one is not ready.
        pools.sort_by_key(|pool| (pool.creation_timestamp().map(|at| at.0), pool.name_any()));
        let (mut accepted, mut next): (Vec<IpPool>, Option<Duration>) = (Vec::new(), None);
        let none = PoolAllocations::new();
        for pool in &pools {
            let name = pool.name_any();
            let parsed = parse_pool(pool);
            let conflict = parsed.as_ref().ok().and_then(|pool| find_conflicts(pool, &accepted).next());
            let conflict = conflict.map(|conflict| (conflict_reason(&conflict), conflict.to_string()));
            let is_accepted = conflict.is_none();
            let own = is_shown(&name).then(|| allocations.get(name.as_str()).unwrap_or(&none));
            let used = used.get(name.as_str()).copied().unwrap_or_default();
            let status = self.status(pool, &parsed, conflict, (own, used));
            let wait = match self.update_pool(pool, parsed.as_ref().ok(), status).await {
                Ok(wait) => {
                    self.problems.clear(&name);
                    wait
                }
                Err(e) => {
                    self.report(&name, &e);
                    Some(RETRY_PAUSE)
                }
            };
            next = next.into_iter().chain(wait).min();
            accepted.extend(parsed.ok().filter(|_| is_accepted));
        }
        let names: HashSet<String> = pools.iter().map(|pool| pool.name_any()).collect();
        self.pacer.retain(|name| names.contains(name));
        let pools_by_name = pools.iter().map(|pool| (pool.name_any(), pool.clone())).collect();
        if !self.caches.endpoints.is_synced() {
            return Ok(next);
        }
        let endpoints = self.caches.endpoints.list().into_iter();
        let present =
            endpoints.map(|((namespace, name), object)| (format!("{namespace}/{name}"), object)).collect();
        let failed =
            spider_endpoints::sync(&self.context.client, &present, &allocations, &pools_by_name).await;
        if let Some(first) = failed.first() {
            self.report("SpiderEndpoints", first);
            next = next.into_iter().chain([RETRY_PAUSE]).min();
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
