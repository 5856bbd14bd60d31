//! What SpiderIPPools show: how far they are used, by whom, and whether they can be.

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

/// The shortest time between two writes of one pool's status.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Keeps a pool that is in use from disappearing. Spiderpool's own name for it.
const FINALIZER: &str = "spiderpool.spidernet.io";

/// The work.
pub struct SpiderPoolController {
    context: ControllerContext,
    caches: AddressCaches,
    importer: LegacyImporter,
    last_write: Mutex<HashMap<String, Instant>>,
}

/// Who has what of a pool.
pub type PoolAllocations<'a> = BTreeMap<IpAddr, &'a AddressAllocation>;

impl SpiderPoolController {
    /// Of these granules.
    pub fn new(context: &ControllerContext, books: AddressCaches) -> Self {
        let before = LegacyImporter::new(context, books.clone());
        Self { context: context.clone(), caches: books, importer: before, last_write: Mutex::default() }
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

    /// Write what differs; `false` if that has to wait.
    async fn update_pool(
        &self,
        pool: &SpiderIPPool,
        status: SpiderIPPoolStatus,
        used: bool,
    ) -> Result<bool, Error> {
        let name = pool.name_any();
        let api: Api<SpiderIPPool> = Api::all(self.context.client.clone());
        let forgiven = |e: kube::Error, action| match classify(&e) {
            ApiFailure::Conflict | ApiFailure::NotFound => Ok(()),
            _ => Err(Error::api(action, format!("SpiderIPPool {name}"))(e)),
        };
        let terminating = pool.metadata.deletion_timestamp.is_some();
        let guarded = pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        // One that is being deleted takes no new finalizer.
        let change = if guarded { terminating && !used } else { !terminating };
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
                Err(e) => forgiven(e, "patch")?,
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
            Err(e) => forgiven(e, "patch the status of").map(|()| true),
        }
    }
}

impl Controller for SpiderPoolController {
    const NAME: &'static str = "showing pools";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !(self.caches.blocks.is_synced() && self.caches.ip_pools.is_synced()) {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        if legacy_lease::is_held_anywhere(&self.context.client, legacy_lease::SPIDERPOOL_LEASE).await? {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        let granules: Vec<_> = self.caches.blocks.list().into_iter().map(|(_, seen)| seen).collect();
        let mut held: HashMap<&str, PoolAllocations<'_>> = HashMap::new();
        for seen in granules.iter().filter(|seen| seen.block.space == IpSpace::default_space()) {
            for (offset, entry) in &seen.block.entries {
                held.entry(&entry.pool).or_default().insert(seen.block.address(*offset), entry);
            }
        }
        let mut pools: Vec<_> = self.caches.ip_pools.list().into_iter().map(|(_, pool)| pool).collect();
        // The older one was there first.
        pools.sort_by_key(|pool| (pool.creation_timestamp().map(|at| at.0), pool.name_any()));
        let mut standing: Vec<IpPool> = Vec::new();
        let mut all_shown = true;
        for pool in &pools {
            let none = PoolAllocations::new();
            let held = held.get(pool.name_any().as_str()).unwrap_or(&none);
            let reading = parse_pool(pool);
            let conflict = reading.as_ref().ok().and_then(|pool| find_conflicts(pool, &standing).next());
            let (ready, reason, message) = match (&reading, &conflict) {
                (Err(e), _) => (false, "Invalid", e.to_string()),
                (Ok(_), Some(conflict)) => (false, conflict_reason(conflict), conflict.to_string()),
                (Ok(pool), None) => (true, "Ready", ready_message(pool)),
            };
            let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let ready = Condition {
                observed_generation: pool.metadata.generation,
                ..condition(before, "Ready", Some(ready), reason, message)
            };
            let foreign = self.importer.import_spiderpool_records(pool, held).await?;
            all_shown &= foreign.is_empty();
            let records = allocation_records(held, foreign);
            let status = SpiderIPPoolStatus {
                allocated_ip_count: Some(count(records.len())),
                total_ip_count: Some(total_addresses(reading.as_ref().ok())),
                allocated_ips: (!records.is_empty()).then(|| serde_json::to_string(&records).ok()).flatten(),
                conditions: vec![ready],
            };
            let used = status.allocated_ips.is_some();
            all_shown &= self.update_pool(pool, status, used).await?;
            standing.extend(reading.ok().filter(|_| conflict.is_none()));
        }
        let gateways = pools.iter().map(|pool| (pool.name_any(), (**pool).clone())).collect();
        spider_endpoints::sync(&self.context, &self.caches, &held, &gateways).await?;
        Ok((!all_shown).then_some(MIN_WRITE_INTERVAL))
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
    if warnings.is_empty() { "gives out addresses".to_owned() } else { warnings.join("; ") }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn total_addresses(pool: Option<&IpPool>) -> i64 {
    pool.map_or(0, |pool| i64::try_from(pool.total()).unwrap_or(i64::MAX))
}

/// The records as Spiderpool writes them, and those that it wrote itself.
fn allocation_records(
    held: &PoolAllocations<'_>,
    foreign: Vec<(IpAddr, SpiderpoolRecord)>,
) -> BTreeMap<IpAddr, SpiderpoolRecord> {
    let ours = held.iter().map(|(address, entry)| {
        let record = SpiderpoolRecord {
            pod: entry.pod.clone(),
            pod_uid: entry.uid.clone(),
            interface: Some(entry.interface.clone()),
            by: Some(MANAGED_MARKER.to_owned()),
        };
        (*address, record)
    });
    foreign.into_iter().chain(ours).collect()
}

/// Whether what is shown is what should be.
fn is_up_to_date(shown: Option<&SpiderIPPoolStatus>, wanted: &SpiderIPPoolStatus) -> bool {
    shown == Some(wanted)
}
