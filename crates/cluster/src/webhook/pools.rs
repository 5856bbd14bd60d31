//! Validates SpiderIPPools at admission.

use super::admission::{AdmissionRequest, AdmissionResponse};
use ferroband_address::{IpFamily, spiderpool::parse_ips};
use ferroband_api::spiderpool::SpiderIPPool;
use ferroband_daemon::addresses::{allocation_records, parse_pool};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use std::net::IpAddr;

/// Validates a SpiderIPPool. Overlaps with other pools are not checked here but reported in the pool's condition,
/// because two pools may be created at the same time.
pub fn review(request: &AdmissionRequest) -> AdmissionResponse {
    let mut response = AdmissionResponse::default();
    let pool: SpiderIPPool = match serde_json::from_value(request.object.clone()) {
        Ok(pool) => pool,
        Err(e) => {
            response.warnings.push(format!("SpiderIPPool not validated, because it cannot be decoded: {e}"));
            return response;
        }
    };
    let before: Option<SpiderIPPool> = serde_json::from_value(request.old_object.clone()).ok();
    // Skip the validation if the pool is being deleted or its spec is unchanged: removing a finalizer must succeed
    // even if the pool is invalid.
    if pool.metadata.deletion_timestamp.is_some()
        || before.as_ref().is_some_and(|before| before.spec == pool.spec)
    {
        return response;
    }
    let object = format!("SpiderIPPool {}", pool.name_any());
    let deny = |cause: String, remedy: &str| {
        Some(Fault::new(FaultCode::InvalidConfig, object.clone(), cause, remedy).to_string())
    };
    match parse_pool(&pool) {
        // The error `e` already names the pool and the field.
        Err(e) => response.denied = Some(format!("{e}; correct the field and apply the pool again")),
        Ok(read) => response.warnings.extend(read.warnings.iter().map(ToString::to_string)),
    }
    let records = match before.as_ref().map(allocation_records).transpose() {
        Ok(records) => records.unwrap_or_default(),
        // It is unknown which addresses are in use. The pool's condition reports that.
        Err(_) => return response,
    };
    let removed = records.into_iter().find(|(address, _)| !contains_address(&pool, *address));
    if let (None, Some((address, record))) = (&response.denied, removed) {
        let cause = format!("{address} would be removed from the pool, but pod {} uses it", record.pod);
        response.denied = deny(cause, "keep the address in `ips`, or delete the pod first");
    }
    response
}

fn contains_address(pool: &SpiderIPPool, address: IpAddr) -> bool {
    let family = if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
    let has = |list: &[String]| {
        let windows = parse_ips(list, family).unwrap_or_default();
        windows.iter().any(|(first, last)| (*first..=*last).contains(&address))
    };
    has(&pool.spec.ips) && !has(&pool.spec.exclude_ips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pool(ips: &[&str]) -> Value {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
            "spec": {"subnet": "172.91.0.0/16", "ips": ips},
            "status": {"allocatedIPs": r#"{"172.91.0.105":{"pod":"team/train-0","podUid":"u"}}"#},
        })
    }

    fn review_pool(object: Value, old: Value) -> AdmissionResponse {
        let request =
            json!({"uid": "u", "kind": {"kind": "SpiderIPPool"}, "object": object, "oldObject": old});
        review(&serde_json::from_value(request).unwrap())
    }

    // Case: ipam S10
    #[test]
    fn an_address_in_use_cannot_be_removed_from_a_pool() {
        let whole = pool(&["172.91.0.100-172.91.0.120"]);
        let message = review_pool(pool(&["172.91.0.110-172.91.0.120"]), whole.clone()).denied.unwrap();
        assert!(message.contains("172.91.0.105") && message.contains("team/train-0"), "{message}");
        let mut excluded = whole.clone();
        excluded["spec"]["excludeIPs"] = json!(["172.91.0.105"]);
        assert!(review_pool(excluded, whole.clone()).denied.is_some());
        assert_eq!(review_pool(pool(&["172.91.0.105"]), whole.clone()), AdmissionResponse::default());
        // The update must be admitted if the pool is being deleted, or if its spec is unchanged.
        let mut going = pool(&["172.91.0.110"]);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(
            (review_pool(going, whole.clone()), review_pool(whole.clone(), whole)),
            Default::default()
        );
    }

    // Case: ipam S02, ipam S04, ipam S08
    #[test]
    fn an_invalid_pool_is_rejected_and_a_tolerated_one_gets_a_warning() {
        let message = review_pool(pool(&["172.91.0.120-172.91.0.100"]), Value::Null).denied.unwrap();
        assert!(message.contains("SpiderIPPool p") && message.contains("172.91.0.120"), "{message}");
        let mut odd = pool(&["172.91.0.100"]);
        odd["spec"]["subnet"] = json!("172.91.7.0/16");
        let response = review_pool(odd, Value::Null);
        assert!(response.denied.is_none() && response.warnings.len() == 1, "{response:?}");
    }
}
