//! Status of SpiderIPPools: allocations, counts and the Ready condition.

use super::{caches::AddressCaches, legacy_import::LegacyImporter, legacy_lease, spider_endpoints};
use crate::{ControllerContext, Error, object_writes::unless_outdated};
use ferroband_address::{
    AddressAllocation, IpFamily, IpSpace,
    spiderpool::{IpPool, PoolConflict, find_conflicts},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderIPPoolStatus};
use ferroband_daemon::{
    Controller,
    addresses::{MANAGED_MARKER, SpiderpoolRecord, UnreadableStatus, allocation_records, parse_pool},
    api_call::{ApiFailure, classify, with_timeout},
    condition, error_chain, merge_patch,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};
use tracing::warn;

/// Minimum time between two writes of the same SpiderIPPool's status.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Spiderpool's finalizer. It keeps a SpiderIPPool from being deleted while addresses of the pool are in use.
const FINALIZER: &str = "spiderpool.spidernet.io";
/// Label of a SpiderIPPool with its subnet, by which Spiderpool's tools select pools.
const SUBNET_LABEL: &str = "ipam.spidernet.io/ippool-cidr";

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
        let written = self.last_write.lock();
        written.get(name).is_none_or(|at| at.elapsed() >= MIN_WRITE_INTERVAL)
    }

    fn record_write(&self, name: &str) {
        self.last_write.lock().insert(name.to_owned(), Instant::now());
    }

    /// Updates the finalizer, the label, `spec.ipVersion` and the status of a SpiderIPPool. Returns `false` if the
    /// status must be written later, because the last write was less than `MIN_WRITE_INTERVAL` ago.
    async fn update_pool(
        &self,
        pool: &SpiderIPPool,
        parsed: Option<&IpPool>,
        status: SpiderIPPoolStatus,
        used: bool,
    ) -> Result<bool, Error> {
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
            return Ok(true);
        }
        if !self.may_write(&name) {
            return Ok(false);
        }
        let patch = status_patch(&status);
        self.record_write(&name);
        let patched =
            with_timeout(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        unless_outdated(patched, "patch the status of", what).map(|_| true)
    }
}

impl Controller for SpiderPoolController {
    const NAME: &'static str = "SpiderIPPools";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if legacy_lease::is_held_anywhere(&self.context.client, legacy_lease::SPIDERPOOL_LEASE).await? {
            return Ok(Some(MIN_WRITE_INTERVAL));
        }
        let blocks = self.caches.blocks.values();
        let mut allocations: HashMap<&str, PoolAllocations<'_>> = HashMap::new();
        for cached in blocks.iter().filter(|cached| cached.block.space == IpSpace::default_space()) {
            for (offset, entry) in &cached.block.entries {
                allocations.entry(&entry.pool).or_default().insert(cached.block.address(*offset), entry);
            }
        }
        let mut pools = self.caches.ip_pools.values();
        // Oldest first: of two pools that overlap, the older one is accepted and the other one is not ready.
        pools.sort_by_key(|pool| (pool.creation_timestamp().map(|at| at.0), pool.name_any()));
        let mut accepted: Vec<IpPool> = Vec::new();
        let mut all_written = true;
        for pool in &pools {
            let none = PoolAllocations::new();
            let allocations = allocations.get(pool.name_any().as_str()).unwrap_or(&none);
            let parsed = parse_pool(pool);
            let conflict = parsed.as_ref().ok().and_then(|pool| find_conflicts(pool, &accepted).next());
            let recorded = allocation_records(pool);
            let (ready, reason, message) = match (&parsed, &recorded, &conflict) {
                (Err(e), ..) => (false, "Invalid", e.to_string()),
                (Ok(_), Err(e), _) => (false, "RecordsUnreadable", unreadable_message(e)),
                (Ok(_), Ok(_), Some(conflict)) => (false, conflict_reason(conflict), conflict.to_string()),
                (Ok(pool), Ok(_), None) => (true, "Ready", ready_message(pool)),
            };
            let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let ready = Condition {
                observed_generation: pool.metadata.generation,
                ..condition(before, "Ready", Some(ready), reason, message)
            };
            let total_ip_count = Some(total_addresses(parsed.as_ref().ok()));
            let status = match recorded {
                // The records stay as they are, for an administrator to correct.
                Err(_) => SpiderIPPoolStatus {
                    total_ip_count,
                    conditions: vec![ready],
                    ..pool.status.clone().unwrap_or_default()
                },
                Ok(recorded) => {
                    let foreign =
                        self.importer.import_spiderpool_records(pool, recorded, allocations).await?;
                    all_written &= foreign.is_empty();
                    let records = status_records(allocations, foreign);
                    let allocated_ips = serde_json::to_string(&records).ok();
                    SpiderIPPoolStatus {
                        allocated_ip_count: Some(count(records.len())),
                        total_ip_count,
                        allocated_ips: allocated_ips.filter(|_| !records.is_empty()),
                        conditions: vec![ready],
                    }
                }
            };
            let used = status.allocated_ips.is_some();
            all_written &= self.update_pool(pool, parsed.as_ref().ok(), status, used).await?;
            accepted.extend(parsed.ok().filter(|_| conflict.is_none()));
        }
        let pools_by_name = pools.iter().map(|pool| (pool.name_any(), (**pool).clone())).collect();
        spider_endpoints::sync(&self.context, &self.caches, &allocations, &pools_by_name).await?;
        Ok((!all_written).then_some(MIN_WRITE_INTERVAL))
    }
}

/// Returns the merge patch for the finalizer and the label with the subnet; `None` if both are as they should be.
fn metadata_patch(pool: &SpiderIPPool, parsed: Option<&IpPool>, used: bool) -> Option<Value> {
    let mut metadata = json!({});
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
        metadata["finalizers"] = json!(finalizers);
    }
    let label = parsed.filter(|_| !terminating).map(subnet_label);
    if let Some(label) = label.filter(|label| pool.labels().get(SUBNET_LABEL) != Some(label)) {
        metadata["labels"] = json!({SUBNET_LABEL: label});
    }
    if metadata == json!({}) {
        return None;
    }
    metadata["resourceVersion"] = json!(pool.resource_version());
    Some(json!({ "metadata": metadata }))
}

/// Returns the merge patch that sets `spec.ipVersion`; `None` if it is set, or the pool is invalid or being deleted.
fn ip_version_patch(pool: &SpiderIPPool, parsed: Option<&IpPool>) -> Option<Value> {
    if pool.spec.ip_version.is_some() || pool.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let version = if parsed?.addresses.family() == IpFamily::V4 { 4 } else { 6 };
    let metadata = json!({"resourceVersion": pool.resource_version()});
    Some(json!({"metadata": metadata, "spec": {"ipVersion": version}}))
}

/// Returns the subnet in the form that Spiderpool uses in labels, for example `172-91-0-0-16`.
fn subnet_label(pool: &IpPool) -> String {
    let text = pool.addresses.subnet().to_string().replace(['.', ':', '/'], "-");
    // The value of a label starts with a letter or a digit.
    text.trim_start_matches('-').to_owned()
}

fn unreadable_message(error: &UnreadableStatus) -> String {
    format!(
        "status.allocatedIPs cannot be read, so it is unknown which addresses are in use and none is assigned: \
         {error}; correct the field"
    )
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
fn status_records(
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

/// Returns the merge patch that replaces the status. A field without a value must be null in the patch: a merge patch
/// does not change a field that it omits (RFC 7396).
fn status_patch(status: &SpiderIPPoolStatus) -> Value {
    let SpiderIPPoolStatus { allocated_ips, allocated_ip_count, total_ip_count, conditions } = status;
    json!({"status": {
        "allocatedIPs": allocated_ips,
        "allocatedIPCount": allocated_ip_count,
        "totalIPCount": total_ip_count,
        "conditions": conditions,
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(metadata: Value, spec: Value, status: Value) -> SpiderIPPool {
        let object = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": metadata, "spec": spec, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    /// Applies a JSON merge patch (RFC 7396).
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else { return *target = patch.clone() };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            match value {
                Value::Null => drop(target.as_object_mut().unwrap().remove(key)),
                value => merge(&mut target[key], value),
            }
        }
    }

    #[test]
    fn status_patch_removes_the_last_record() {
        let before = json!({"status": {
            "allocatedIPs": r#"{"172.91.0.100":{"pod":"ns/p","podUid":"u"}}"#, "allocatedIPCount": 1,
            "totalIPCount": 5,
        }});
        let after =
            SpiderIPPoolStatus { allocated_ip_count: Some(0), total_ip_count: Some(5), ..Default::default() };
        let mut stored = before;
        merge(&mut stored, &status_patch(&after));
        let stored: SpiderIPPoolStatus = serde_json::from_value(stored["status"].clone()).unwrap();
        assert_eq!(stored, after);
    }

    #[test]
    fn pool_gets_finalizer_label_and_ip_version_once() {
        let spec = |subnet: &str, ip: &str| json!({"subnet": subnet, "ips": [ip]});
        let patches = |pool: &SpiderIPPool, used| {
            let parsed = parse_pool(pool).ok();
            (metadata_patch(pool, parsed.as_ref(), used), ip_version_patch(pool, parsed.as_ref()))
        };
        let new = pool(json!({"name": "p"}), spec("172.91.3.0/16", "172.91.0.100"), Value::Null);
        let (Some(metadata), Some(version)) = patches(&new, false) else { panic!() };
        assert_eq!(metadata["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(metadata["metadata"]["labels"], json!({SUBNET_LABEL: "172-91-0-0-16"}));
        assert_eq!((&metadata["spec"], &version["spec"]), (&Value::Null, &json!({"ipVersion": 4})));
        let mut stored = serde_json::to_value(&new).unwrap();
        merge(&mut stored, &metadata);
        merge(&mut stored, &version);
        assert_eq!(patches(&serde_json::from_value(stored).unwrap(), true), (None, None));

        let v6 = pool(json!({"name": "p"}), spec("fd00:1::/64", "fd00:1::5"), Value::Null);
        let (Some(metadata), Some(version)) = patches(&v6, false) else { panic!() };
        assert_eq!(metadata["metadata"]["labels"], json!({SUBNET_LABEL: "fd00-1---64"}));
        assert_eq!(version["spec"], json!({"ipVersion": 6}));

        let gone =
            json!({"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]});
        let gone = pool(gone, spec("172.91.0.0/16", "172.91.0.100"), Value::Null);
        assert_eq!(patches(&gone, true), (None, None), "not changed while it is used");
        let (Some(metadata), None) = patches(&gone, false) else { panic!() };
        assert_eq!(metadata["metadata"]["finalizers"], json!([]));
    }
}
