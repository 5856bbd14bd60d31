//! Status of SpiderIPPools: allocations, counts and the Ready condition.

use super::{caches::AddressCaches, legacy_import::LegacyImporter, legacy_lease, spider_endpoints};
use crate::{Controller, ControllerContext, Error};
use ferroband_address::{
    AddressAllocation, IpSpace,
    spiderpool::{IpPool, PoolConflict, find_conflicts},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderIPPoolStatus};
use ferroband_daemon::{
    addresses::{MANAGED_MARKER, SpiderpoolRecord, parse_pool},
    api_call::{ApiFailure, classify, with_timeout},
    condition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Minimum time between two writes of the same SpiderIPPool's status.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Spiderpool's finalizer. It keeps a SpiderIPPool from being deleted while addresses of the pool are in use.
const FINALIZER: &str = "spiderpool.spidernet.io";

/// The controller that writes the status of SpiderIPPools.
pub struct SpiderPoolController {
    context: ControllerContext,
    caches: AddressCaches,
    importer: LegacyImporter,
    last_write: Mutex<HashMap<String, Instant>>,
}

pub type PoolAllocations<'a> = BTreeMap<IpAddr, &'a AddressAllocation>;

impl SpiderPoolController {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        let importer = LegacyImporter::new(context, caches.clone());
        Self { context: context.clone(), caches, importer, last_write: Mutex::default() }
    }

    fn may_write(&self, name: &str) -> bool {
        let written = self.last_write.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(name).is_none_or(|at| at.elapsed() >= MIN_WRITE_INTERVAL)
    }

    fn record_write(&self, name: &str) {
        self.last_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), Instant::now());
    }

    /// Updates the finalizer and the status of a SpiderIPPool. Returns `false` if the status must be written
    /// later, because the last write was less than `MIN_WRITE_INTERVAL` ago.
    async fn update_pool(
        &self,
        pool: &SpiderIPPool,
        status: SpiderIPPoolStatus,
        used: bool,
    ) -> Result<bool, Error> {
        let name = pool.name_any();
        let api: Api<SpiderIPPool> = Api::all(self.context.client.clone());
        let ignore_conflict = |e: kube::Error, action| match classify(&e) {
            ApiFailure::Conflict | ApiFailure::NotFound => Ok(()),
            _ => Err(Error::api(action, format!("SpiderIPPool {name}"))(e)),
        };
        let terminating = pool.metadata.deletion_timestamp.is_some();
        let has_finalizer = pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        // Remove the finalizer from an unused pool that is being deleted, and add it to any other pool. The API server
        // rejects a new finalizer on an object that is being deleted.
        let change = if has_finalizer { terminating && !used } else { !terminating };
        if change {
            let mut finalizers = pool.finalizers().to_vec();
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            if !terminating {
                finalizers.push(FINALIZER.to_owned());
            }
            let version = pool.resource_version();
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            match with_timeout(api.patch(&name, &parameters, &patch)).await {
                Ok(_) => {}
                Err(e) => ignore_conflict(e, "patch")?,
            }
        }
        if is_up_to_date(pool.status.as_ref(), &status) {
            return Ok(true);
        }
        if !self.may_write(&name) {
            return Ok(false);
        }
        let patch = json!({ "status": status });
        self.record_write(&name);
        match with_timeout(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Ok(_) => Ok(true),
            Err(e) => ignore_conflict(e, "patch the status of").map(|()| true),
        }
    }
}

impl Controller for SpiderPoolController {
    const NAME: &'static str = "SpiderIPPools";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !(self.caches.blocks.is_synced() && self.caches.ip_pools.is_synced()) {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        if legacy_lease::is_held_anywhere(&self.context.client, legacy_lease::SPIDERPOOL_LEASE).await? {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        let blocks: Vec<_> = self.caches.blocks.list().into_iter().map(|(_, cached)| cached).collect();
        let mut allocations: HashMap<&str, PoolAllocations<'_>> = HashMap::new();
        for cached in blocks.iter().filter(|cached| cached.block.space == IpSpace::default_space()) {
            for (offset, entry) in &cached.block.entries {
                allocations.entry(&entry.pool).or_default().insert(cached.block.address(*offset), entry);
            }
        }
        let mut pools: Vec<_> = self.caches.ip_pools.list().into_iter().map(|(_, pool)| pool).collect();
        // Oldest first: of two pools that overlap, the older one is accepted and the other one is not ready.
        pools.sort_by_key(|pool| (pool.creation_timestamp().map(|at| at.0), pool.name_any()));
        let mut accepted: Vec<IpPool> = Vec::new();
        let mut all_written = true;
        for pool in &pools {
            let none = PoolAllocations::new();
            let allocations = allocations.get(pool.name_any().as_str()).unwrap_or(&none);
            let parsed = parse_pool(pool);
            let conflict = parsed.as_ref().ok().and_then(|pool| find_conflicts(pool, &accepted).next());
            let (ready, reason, message) = match (&parsed, &conflict) {
                (Err(e), _) => (false, "Invalid", e.to_string()),
                (Ok(_), Some(conflict)) => (false, conflict_reason(conflict), conflict.to_string()),
                (Ok(pool), None) => (true, "Ready", ready_message(pool)),
            };
            let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let ready = Condition {
                observed_generation: pool.metadata.generation,
                ..condition(before, "Ready", Some(ready), reason, message)
            };
            let foreign = self.importer.import_spiderpool_records(pool, allocations).await?;
            all_written &= foreign.is_empty();
            let records = allocation_records(allocations, foreign);
            let status = SpiderIPPoolStatus {
                allocated_ip_count: Some(count(records.len())),
                total_ip_count: Some(total_addresses(parsed.as_ref().ok())),
                allocated_ips: (!records.is_empty()).then(|| serde_json::to_string(&records).ok()).flatten(),
                conditions: vec![ready],
            };
            let used = status.allocated_ips.is_some();
            all_written &= self.update_pool(pool, status, used).await?;
            accepted.extend(parsed.ok().filter(|_| conflict.is_none()));
        }
        let pools_by_name = pools.iter().map(|pool| (pool.name_any(), (**pool).clone())).collect();
        spider_endpoints::sync(&self.context, &self.caches, &allocations, &pools_by_name).await?;
        Ok((!all_written).then_some(MIN_WRITE_INTERVAL))
    }
}

fn conflict_reason(conflict: &PoolConflict) -> &'static str {
    match conflict {
        PoolConflict::Addresses { .. } => "Overlaps",
        PoolConflict::Subnets { .. } => "SubnetOverlaps",
    }
}

fn ready_message(pool: &IpPool) -> String {
    let warnings: Vec<_> = pool.warnings.iter().map(ToString::to_string).collect();
    if warnings.is_empty() { "the pool can allocate addresses".to_owned() } else { warnings.join("; ") }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn total_addresses(pool: Option<&IpPool>) -> i64 {
    pool.map_or(0, |pool| i64::try_from(pool.total()).unwrap_or(i64::MAX))
}

/// Converts the allocations to the format of a SpiderIPPool's status, and adds `foreign`, the records that
/// Spiderpool itself wrote.
fn allocation_records(
    allocations: &PoolAllocations<'_>,
    foreign: Vec<(IpAddr, SpiderpoolRecord)>,
) -> BTreeMap<IpAddr, SpiderpoolRecord> {
    let own = allocations.iter().map(|(address, entry)| {
        let record = SpiderpoolRecord {
            pod: entry.pod.clone(),
            pod_uid: entry.uid.clone(),
            interface: Some(entry.interface.clone()),
            by: Some(MANAGED_MARKER.to_owned()),
        };
        (*address, record)
    });
    foreign.into_iter().chain(own).collect()
}

fn is_up_to_date(current: Option<&SpiderIPPoolStatus>, desired: &SpiderIPPoolStatus) -> bool {
    current == Some(desired)
}
