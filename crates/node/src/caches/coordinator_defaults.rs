//! Defaults of the coordinator plugin: the cluster's CIDRs and the administrator's SpiderCoordinator.
//!
//! ```text
//! SpiderCoordinator `default` ── spec ────────────────▶ fields that a coordinator configuration leaves out
//!                             └─ status ── CIDRs ─────▶ CIDRs of pods and services
//! ServiceCIDR objects, pod CIDRs of the Node object ──▶ the same, if the status has none
//! ```
//!
//! Unknown CIDRs are left empty. Upstream instead rejects every pod of a cluster whose CIDRs it cannot determine.

use crate::{api_call::with_timeout, error::error_chain};
use ferroband_api::spiderpool::SpiderCoordinator;
use ferroband_config::CoordinatorConfig;
use ferroband_daemon::{Retry, SharedCache, decoded, reflect};
use ferroband_model::config_object::{get_key, set_key};
use k8s_openapi::api::{core::v1::Node, networking::v1::ServiceCIDR};
use kube::{Api, Client, runtime::watcher};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tracing::{debug, info};

/// Shortest and longest pause after a failed attempt to read the Node object.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Name of the only SpiderCoordinator that is used.
const DEFAULT_COORDINATOR: &str = "default";
/// Fields of the SpiderCoordinator spec that have the same name in the plugin configuration.
const SPEC_FIELDS: [&str; 11] = [
    "mode",
    "hijackCIDR",
    "policyRoutes",
    "podMACPrefix",
    "tunePodRoutes",
    "podDefaultRouteNIC",
    "hostRuleTable",
    "podRPFilter",
    "txQueueLen",
    "vethLinkAddress",
    "vethMTU",
];

/// Caches of the objects from which the defaults of the coordinator plugin are taken.
#[derive(Clone, Default)]
pub struct CoordinatorDefaults {
    coordinators: SharedCache<Map<String, Value>>,
    service_cidrs: SharedCache<Vec<String>>,
    pod_cidrs: Arc<OnceLock<Vec<String>>>,
}

impl CoordinatorDefaults {
    pub async fn watch_coordinator(self, client: Client) {
        let what = "SpiderCoordinators";
        let reduce = |object: SpiderCoordinator| match serde_json::to_value(object) {
            Ok(Value::Object(fields)) => Some(fields),
            _ => None,
        };
        let (api, all) = (Api::all(client), watcher::Config::default());
        reflect(what, api, all, self.coordinators, decoded(what, reduce)).await;
    }

    pub async fn watch_service_cidrs(self, client: Client) {
        let reduce = |object: ServiceCIDR| object.spec.and_then(|spec| spec.cidrs);
        reflect("ServiceCIDRs", Api::all(client), watcher::Config::default(), self.service_cidrs, reduce)
            .await;
    }

    /// Reads the pod CIDRs from the Node object, retrying until one attempt succeeds. Never returns, even
    /// after success.
    pub async fn read_pod_cidrs(self, client: Client, node: String) {
        let api: Api<Node> = Api::all(client);
        let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
        loop {
            match with_timeout(api.get(&node)).await {
                Ok(object) => {
                    let spec = object.spec.unwrap_or_default();
                    let pod_cidrs = spec.pod_cidrs.unwrap_or_else(|| spec.pod_cidr.into_iter().collect());
                    info!(?pod_cidrs, "read the pod CIDRs of this node");
                    let _ = self.pod_cidrs.set(pod_cidrs);
                    return std::future::pending().await;
                }
                Err(e) => debug!(error = %error_chain(&e), "cannot read the Node object, retrying"),
            }
            retry.pause().await;
        }
    }

    /// Adds the defaults to `plugin`, a coordinator configuration. Fields that it already has are kept.
    pub fn fill(&self, plugin: &mut Map<String, Value>) {
        let empty = Map::new();
        let coordinator = self.coordinators.get("", DEFAULT_COORDINATOR);
        let object = coordinator.as_deref().unwrap_or(&empty);
        let section = |name: &str| object.get(name).and_then(Value::as_object).unwrap_or(&empty);
        let mut put = |key: &str, value: Option<Value>| {
            let absent = get_key(plugin, key).is_none();
            if let Some(value) = value.filter(|value| absent && !value.is_null()) {
                set_key(plugin, key, value);
            }
        };
        for field in SPEC_FIELDS {
            put(field, section("spec").get(field).cloned());
        }
        let from_status = |key: &str| {
            let list = section("status").get(key).and_then(Value::as_array);
            list.filter(|list| !list.is_empty()).map(|list| json!(list))
        };
        let service_cidrs = || {
            let all: Vec<String> =
                self.service_cidrs.list().into_iter().flat_map(|(_, cidrs)| cidrs.to_vec()).collect();
            json!(all)
        };
        let services = from_status("serviceCIDR").unwrap_or_else(service_cidrs);
        put("serviceCIDR", Some(services.clone()));
        let pod_cidrs = || json!(self.pod_cidrs.get().cloned().unwrap_or_default());
        let pods = from_status("overlayPodCIDR").unwrap_or_else(pod_cidrs);
        put("overlayPodCIDR", Some(pods.clone()));
        CoordinatorConfig::set_cluster_subnets(plugin, services, pods);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::runtime::watcher::Event;

    fn fill(defaults: &CoordinatorDefaults, plugin: Value) -> Value {
        let mut plugin = plugin.as_object().unwrap().clone();
        defaults.fill(&mut plugin);
        Value::Object(plugin)
    }

    #[test]
    fn plugin_configuration_precedes_spider_coordinator_and_cluster_cidrs() {
        let defaults = CoordinatorDefaults::default();
        let name = || (String::new(), DEFAULT_COORDINATOR.to_owned());
        assert_eq!(
            fill(&defaults, json!({"type": "coordinator"})),
            json!({"type": "coordinator", "serviceCIDR": [], "overlayPodCIDR": [], "clusterServiceCIDR": [],
                "clusterPodCIDR": []})
        );
        defaults
            .service_cidrs
            .apply(Event::Apply(((String::new(), "kubernetes".into()), Some(vec!["10.96.0.0/16".into()]))));
        defaults.pod_cidrs.set(vec!["10.78.1.0/24".into()]).unwrap();
        let config = fill(&defaults, json!({}));
        assert_eq!(
            (&config["serviceCIDR"], &config["overlayPodCIDR"]),
            (&json!(["10.96.0.0/16"]), &json!(["10.78.1.0/24"]))
        );
        let object = json!({"spec": {"mode": "underlay", "hostRuleTable": 600, "podCIDRType": "auto"},
            "status": {"phase": "Synced", "overlayPodCIDR": ["10.78.0.0/16"]}});
        defaults.coordinators.apply(Event::Apply((name(), object.as_object().cloned())));
        let config = fill(&defaults, json!({"mode": "overlay", "vethMTU": 1400}));
        assert_eq!(
            config,
            json!({"mode": "overlay", "vethMTU": 1400, "hostRuleTable": 600, "serviceCIDR": ["10.96.0.0/16"],
                "overlayPodCIDR": ["10.78.0.0/16"], "clusterServiceCIDR": ["10.96.0.0/16"],
                "clusterPodCIDR": ["10.78.0.0/16"]})
        );
        let hidden =
            fill(&defaults, json!({"serviceCIDR": [], "clusterservicecidr": [], "clusterPodCIDR": []}));
        assert_eq!(hidden["serviceCIDR"], json!([]));
        let cluster = (&hidden["clusterServiceCIDR"], &hidden["clusterPodCIDR"]);
        assert_eq!(
            cluster,
            (&json!(["10.96.0.0/16"]), &json!(["10.78.0.0/16"])),
            "a user cannot change them"
        );
    }
}
