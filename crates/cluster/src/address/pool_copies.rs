//! Copies SpiderIPPools without their status for the nodes.

use super::caches::AddressCaches;
use crate::{
    ControllerContext, Error,
    object_writes::{apply_object, delete_object},
};
use ferroband_api::{
    ferroband::{SpiderPoolCopy, SpiderPoolCopySpec},
    spiderpool::SpiderIPPool,
};
use ferroband_daemon::{Controller, ControllerTiming};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// The controller that writes SpiderPoolCopies.
pub struct PoolCopyController {
    context: ControllerContext,
    caches: AddressCaches,
}

impl PoolCopyController {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches }
    }
}

/// Returns the copy of a pool.
fn copy_of(pool: &SpiderIPPool) -> SpiderPoolCopySpec {
    let spec = match serde_json::to_value(&pool.spec) {
        Ok(Value::Object(fields)) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => serde_json::Map::new(),
    };
    SpiderPoolCopySpec {
        pool: spec,
        generation: pool.metadata.generation.unwrap_or_default(),
        terminating: pool.metadata.deletion_timestamp.is_some(),
    }
}

impl Controller for PoolCopyController {
    const NAME: &'static str = "pool copies";
    // A change of a pool holds for every ADD that starts two seconds later.
    const TIMING: ControllerTiming =
        ControllerTiming { debounce: Duration::from_millis(50), ..ControllerTiming::DEFAULT };
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if self.caches.ip_pools.problem().is_some() {
            // The pools are unknown. Nodes keep the last copies.
            return Ok(Some(Duration::from_secs(5)));
        }
        let pools = self.caches.ip_pools.cache.values();
        let desired: BTreeMap<String, SpiderPoolCopySpec> =
            pools.iter().map(|pool| (pool.name_any(), copy_of(pool))).collect();
        let (api, mut failed): (Api<SpiderPoolCopy>, _) = (Api::all(self.context.client.clone()), None);
        for (name, spec) in &desired {
            if self.caches.pool_copies.get("", name).as_deref() != Some(spec) {
                failed = failed.or(apply_object(&api, name, json!({ "spec": spec })).await.err());
            }
        }
        for ((_, name), _) in self.caches.pool_copies.list() {
            if !desired.contains_key(&name) {
                failed = failed.or(delete_object(&api, &name).await.err());
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterSettings;
    use ferroband_testbed::fake_api::FakeApi;
    use kube::runtime::watcher::Event;

    const COPIES: &str = "/apis/ferroband.io/v1alpha1/spiderpoolcopies";

    fn pool(name: &str, generation: i64, status: &str) -> SpiderIPPool {
        let object = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": {"name": name, "generation": generation},
            "spec": {"subnet": "172.91.0.0/16", "ips": ["172.91.0.100"]}, "status": {"allocatedIPs": status},
        });
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn a_copy_follows_the_spec_of_its_pool_and_not_its_status() {
        let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let controller = PoolCopyController::new(&context, caches.clone());
        let key = |name: &str| (String::new(), name.to_owned());
        let put = |name: &str, generation, status| {
            caches.ip_pools.cache.apply(Event::Apply((key(name), Some(pool(name, generation, status)))));
        };
        // The fake API server answers a patch with the stored object.
        let stored = json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "SpiderPoolCopy", "metadata": {"name": "a"},
            "spec": {}});
        api.insert_object(&format!("{COPIES}/a"), stored);
        put("a", 1, "{}");
        controller.reconcile().await.unwrap();
        let written = api.last_body("PATCH", &format!("{COPIES}/a"));
        assert_eq!(written["spec"]["pool"]["ips"], json!(["172.91.0.100"]));
        assert!(!written.to_string().contains("allocatedIPs"), "{written}");
        let copy: SpiderPoolCopySpec = serde_json::from_value(written["spec"].clone()).unwrap();
        caches.pool_copies.apply(Event::Apply((key("a"), Some(copy.clone()))));
        caches.pool_copies.apply(Event::Apply((key("gone"), Some(copy))));
        put("a", 1, "{\"172.91.0.100\":{}}");
        let calls = api.list_calls().len();
        controller.reconcile().await.unwrap();
        assert_eq!(api.list_calls()[calls..], [format!("DELETE {COPIES}/gone")], "a status changes nothing");
        put("a", 2, "{}");
        controller.reconcile().await.unwrap();
        assert_eq!(api.last_body("PATCH", &format!("{COPIES}/a"))["spec"]["generation"], 2);
    }
}
