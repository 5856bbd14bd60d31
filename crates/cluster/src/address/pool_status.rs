//! Content of a SpiderIPPool's status and metadata. Does no I/O.

use super::foreign_records::is_placeholder;
use ferroband_address::{
    AddressAllocation, IpFamily,
    spiderpool::{IpPool, PoolConflict},
};
use ferroband_api::spiderpool::{SpiderIPPool, SpiderIPPoolStatus};
use ferroband_daemon::addresses::{MANAGED_MARKER, SpiderpoolRecord, UnreadableStatus};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr};

/// Spiderpool's finalizer. It keeps a SpiderIPPool from being deleted while addresses of the pool are in use.
const FINALIZER: &str = "spiderpool.spidernet.io";
/// Label of a SpiderIPPool with its subnet, by which Spiderpool's tools select pools.
const SUBNET_LABEL: &str = "ipam.spidernet.io/ippool-cidr";

/// Entries of one pool by address.
pub type PoolAllocations<'a> = BTreeMap<IpAddr, &'a AddressAllocation>;

/// Returns the merge patch for the finalizer and the label with the subnet; `None` if both are as they should be.
pub fn metadata_patch(pool: &SpiderIPPool, parsed: Option<&IpPool>, used: bool) -> Option<Value> {
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
pub fn ip_version_patch(pool: &SpiderIPPool, parsed: Option<&IpPool>) -> Option<Value> {
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

pub fn unreadable_message(error: &UnreadableStatus) -> String {
    format!(
        "status.allocatedIPs cannot be read, so it is unknown which addresses are in use and none is assigned: \
         {error}; correct the field"
    )
}

pub fn conflict_reason(conflict: &PoolConflict) -> &'static str {
    match conflict {
        PoolConflict::Addresses { .. } => "Overlaps",
        PoolConflict::Subnets { .. } => "SubnetOverlaps",
    }
}

pub fn ready_message(pool: &IpPool, unlisted: Option<usize>) -> String {
    let mut parts: Vec<_> = pool.warnings.iter().map(ToString::to_string).collect();
    if parts.is_empty() {
        parts.push("the pool can allocate addresses".to_owned());
    }
    parts.extend(unlisted.map(|count| {
        format!("status.allocatedIPs does not list the {count} addresses, because that exceeds the configured limit")
    }));
    parts.join("; ")
}

pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn total_addresses(pool: Option<&IpPool>) -> i64 {
    pool.map_or(0, |pool| i64::try_from(pool.total()).unwrap_or(i64::MAX))
}

/// Returns the records of a SpiderIPPool's status: `own`, the addresses that are in blocks, unless they exceed the limit,
/// and `foreign`, which stay as Spiderpool wrote them.
pub fn status_records(
    own: &PoolAllocations<'_>,
    foreign: Vec<(IpAddr, SpiderpoolRecord)>,
) -> BTreeMap<IpAddr, SpiderpoolRecord> {
    let own = own.iter().filter(|(_, entry)| !is_placeholder(entry)).map(|(address, entry)| {
        let record = SpiderpoolRecord {
            pod: entry.pod.clone(),
            pod_uid: entry.uid.clone(),
            interface: Some(entry.interface.clone()),
            by: Some(MANAGED_MARKER.to_owned()),
        };
        (*address, record)
    });
    own.chain(foreign).collect()
}

/// Returns the merge patch that replaces the status. A field without a value must be null in the patch: a merge patch
/// does not change a field that it omits (RFC 7396).
pub fn status_patch(status: &SpiderIPPoolStatus) -> Value {
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
    use ferroband_daemon::addresses::parse_pool;

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

    #[test]
    fn foreign_records_stay_and_placeholders_are_not_ours() {
        let entry = |pod: &str, node: &str| AddressAllocation {
            pod: pod.into(),
            container: "c".into(),
            node: node.into(),
            ..AddressAllocation::default()
        };
        let address = |last: u8| IpAddr::from([172, 91, 0, last]);
        let (ours, other, withheld) = (entry("a/ours", "n"), entry("a/other", "n"), entry("a/theirs", ""));
        let own = PoolAllocations::from([(address(1), &ours), (address(2), &other), (address(3), &withheld)]);
        let theirs = |pod: &str| SpiderpoolRecord { pod: pod.into(), ..SpiderpoolRecord::default() };
        let foreign = vec![(address(2), theirs("a/late")), (address(3), theirs("a/theirs"))];
        let records = status_records(&own, foreign);
        let managed: Vec<_> =
            records.values().map(|record| (record.pod.as_str(), record.is_managed())).collect();
        assert_eq!(managed, [("a/ours", true), ("a/late", false), ("a/theirs", false)]);
    }
}
