//! Validates SpiderIPPools at admission.

use super::admission::{AdmissionRequest, AdmissionResponse};
use super::context::WebhookContext;
use ferroband_address::{IpFamily, spiderpool::parse_ips};
use ferroband_api::spiderpool::SpiderIPPool;
use ferroband_daemon::{addresses::parse_pool, error_chain};
use ferroband_model::{Fault, FaultCode};
use kube::ResourceExt;
use std::net::IpAddr;

/// Validates a SpiderIPPool. Overlaps with other pools are not checked here but reported in the pool's condition,
/// because two pools may be created at the same time.
pub async fn review(request: &AdmissionRequest, context: &WebhookContext) -> AdmissionResponse {
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
    let changes_addresses = |before: &SpiderIPPool| {
        before.spec.ips != pool.spec.ips || before.spec.exclude_ips != pool.spec.exclude_ips
    };
    if response.denied.is_some() || !before.as_ref().is_some_and(changes_addresses) {
        return response;
    }
    match context.find_address_user(&pool.name_any(), |address| !contains_address(&pool, address)).await {
        Ok(None) => {}
        Ok(Some((address, user))) => {
            let cause = format!("{address} would be removed from the pool, but pod {user} uses it");
            response.denied = deny(cause, "keep the address in `ips`, or delete the pod first");
        }
        Err(e) => response.warnings.push(format!(
            "not checked whether pods use the removed addresses of {object}; they keep them: {}",
            error_chain(&e)
        )),
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
    use crate::{ClusterSettings, ControllerContext, networks::NetworkCaches};
    use ferroband_testbed::fake_api::FakeApi;
    use serde_json::{Value, json};

    const BLOCKS: &str = "/apis/ferroband.io/v1alpha1/addressblocks";

    fn pool(ips: &[&str]) -> Value {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "p"},
            "spec": {"subnet": "172.91.0.0/16", "ips": ips},
        })
    }

    /// An API server in which pod `team/train-0` has 172.91.0.105 of pool `p`.
    fn server() -> FakeApi {
        let api = FakeApi::default();
        let entry = json!({"pod": "team/train-0", "uid": "u", "interface": "net1", "container": "c", "node": "n",
            "pool": "p"});
        let block = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "AddressBlock",
            "metadata": {"name": "default-172.91.0.96"}, "spec": {"space": "default", "first": "172.91.0.96",
                "entries": {"9": entry}}});
        api.insert_object(BLOCKS, json!({"metadata": {}, "items": [block]}));
        api
    }

    async fn review_pool(api: &FakeApi, object: Value, old: Value) -> AdmissionResponse {
        let request =
            json!({"uid": "u", "kind": {"kind": "SpiderIPPool"}, "object": object, "oldObject": old});
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let context = WebhookContext::new(&context, &NetworkCaches::default());
        review(&serde_json::from_value(request).unwrap(), &context).await
    }

    // Case: ipam S10
    #[tokio::test]
    async fn an_address_in_use_cannot_be_removed_from_a_pool() {
        let (api, whole) = (server(), pool(&["172.91.0.100-172.91.0.120"]));
        let message =
            review_pool(&api, pool(&["172.91.0.110-172.91.0.120"]), whole.clone()).await.denied.unwrap();
        assert!(message.contains("172.91.0.105") && message.contains("team/train-0"), "{message}");
        let mut excluded = whole.clone();
        excluded["spec"]["excludeIPs"] = json!(["172.91.0.105"]);
        assert!(review_pool(&api, excluded, whole.clone()).await.denied.is_some());
        let kept = review_pool(&api, pool(&["172.91.0.105"]), whole.clone()).await;
        assert_eq!(kept, AdmissionResponse::default());
        // The update must be admitted if the pool is being deleted, or if its addresses are unchanged. Then the blocks
        // are not read.
        let calls = api.list_calls().len();
        let mut going = pool(&["172.91.0.110"]);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut disabled = whole.clone();
        disabled["spec"]["disable"] = json!(true);
        for object in [going, whole.clone(), disabled] {
            assert_eq!(review_pool(&api, object, whole.clone()).await, AdmissionResponse::default());
        }
        assert_eq!(api.list_calls().len(), calls);
    }

    #[tokio::test]
    async fn a_change_that_cannot_be_checked_is_admitted_with_a_warning() {
        let api = FakeApi::default();
        api.reject(BLOCKS, http::StatusCode::FORBIDDEN);
        let changed = review_pool(&api, pool(&["172.91.0.110"]), pool(&["172.91.0.100-172.91.0.120"])).await;
        assert!(changed.denied.is_none() && changed.warnings[0].contains("not checked"), "{changed:?}");
    }

    // Case: ipam S02, ipam S04, ipam S08
    #[tokio::test]
    async fn an_invalid_pool_is_rejected_and_a_tolerated_one_gets_a_warning() {
        let api = FakeApi::default();
        let message =
            review_pool(&api, pool(&["172.91.0.120-172.91.0.100"]), Value::Null).await.denied.unwrap();
        assert!(message.contains("SpiderIPPool p") && message.contains("172.91.0.120"), "{message}");
        let mut odd = pool(&["172.91.0.100"]);
        odd["spec"]["subnet"] = json!("172.91.7.0/16");
        let response = review_pool(&api, odd, Value::Null).await;
        assert!(response.denied.is_none() && response.warnings.len() == 1, "{response:?}");
    }
}
