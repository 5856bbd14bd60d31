//! Pools of addresses, looked at before they are stored.

use super::admission::{AdmissionRequest, AdmissionResponse};
use ferroband_address::{IpFamily, spiderpool::parse_ips};
use ferroband_api::spiderpool::SpiderIPPool;
use ferroband_daemon::addresses::{allocation_records, parse_pool};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use std::net::IpAddr;

/// Look at a pool. Whether it overlaps with others its condition says: two may be created at the same moment.
pub fn review(request: &AdmissionRequest) -> AdmissionResponse {
    let mut answer = AdmissionResponse::default();
    let pool: SpiderIPPool = match serde_json::from_value(request.object.clone()) {
        Ok(pool) => pool,
        Err(e) => {
            answer.warnings.push(format!("the pool cannot be read: {e}"));
            return answer;
        }
    };
    let before: Option<SpiderIPPool> = serde_json::from_value(request.old_object.clone()).ok();
    // A finalizer must come off whatever the pool says.
    if pool.metadata.deletion_timestamp.is_some()
        || before.as_ref().is_some_and(|before| before.spec == pool.spec)
    {
        return answer;
    }
    let object = format!("SpiderIPPool {}", pool.name_any());
    let refuse = |cause: String, remedy: &str| {
        Some(Fault::new(FaultCode::InvalidConfig, object.clone(), cause, remedy).to_string())
    };
    match parse_pool(&pool) {
        // It names the pool and the field.
        Err(e) => answer.denied = Some(format!("{e}; correct the field and apply the pool again")),
        Ok(read) => answer.warnings.extend(read.warnings.iter().map(ToString::to_string)),
    }
    let left_out =
        before.iter().flat_map(allocation_records).find(|(address, _)| !contains_address(&pool, *address));
    if let (None, Some((address, record))) = (&answer.denied, left_out) {
        let cause = format!("{address} would no longer be of the pool, and pod {} has it", record.pod);
        answer.denied = refuse(cause, "keep the address in `ips`, or delete the pod first");
    }
    answer
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

    fn ask(object: Value, old: Value) -> AdmissionResponse {
        let request =
            json!({"uid": "u", "kind": {"kind": "SpiderIPPool"}, "object": object, "oldObject": old});
        review(&serde_json::from_value(request).unwrap())
    }

    #[test]
    fn s10_a_pool_does_not_shrink_under_a_pod() {
        let whole = pool(&["172.91.0.100-172.91.0.120"]);
        let refused = ask(pool(&["172.91.0.110-172.91.0.120"]), whole.clone()).denied.unwrap();
        assert!(refused.contains("172.91.0.105") && refused.contains("team/train-0"), "{refused}");
        let mut excluded = whole.clone();
        excluded["spec"]["excludeIPs"] = json!(["172.91.0.105"]);
        assert!(ask(excluded, whole.clone()).denied.is_some());
        assert_eq!(ask(pool(&["172.91.0.105"]), whole.clone()), AdmissionResponse::default());
        // Deleted, or changed in nothing that counts.
        let mut going = pool(&["172.91.0.110"]);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!((ask(going, whole.clone()), ask(whole.clone(), whole)), Default::default());
    }

    #[test]
    fn s02_s04_s08_what_is_wrong_is_refused_and_what_is_odd_is_told() {
        let refused = ask(pool(&["172.91.0.120-172.91.0.100"]), Value::Null).denied.unwrap();
        assert!(refused.contains("SpiderIPPool p") && refused.contains("172.91.0.120"), "{refused}");
        let mut odd = pool(&["172.91.0.100"]);
        odd["spec"]["subnet"] = json!("172.91.7.0/16");
        let told = ask(odd, Value::Null);
        assert!(told.denied.is_none() && told.warnings.len() == 1, "{told:?}");
    }
}
