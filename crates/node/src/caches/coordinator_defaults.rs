//! What pods reach through their node: the cluster's subnets, and what its administrator says of them.
//!
//! ```text
//! SpiderCoordinator `default` ── spec ─────────────▶ what a coordinator's configuration leaves out
//!                             └─ status ── subnets ─▶ of pods and of services
//! ServiceCIDR objects, the node's own pod subnets ──▶ the same, where nobody has put them there
//! ```
//!
//! A coordinator that does not know all of it works as far as it goes: upstream's refuses every pod of a cluster whose
//! subnets it cannot find out.

use super::watch_cache::{WatchCache, map_event, watch_forever};
use crate::{api_call::with_timeout, error::error_chain};
use ferroband_api::spiderpool::SpiderCoordinator;
use k8s_openapi::api::{core::v1::Node, networking::v1::ServiceCIDR};
use kube::{
    Api, Client, ResourceExt,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, info};

/// The pause after a failed attempt to read the node's own object.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// The one coordinator that counts.
const DEFAULT_COORDINATOR: &str = "default";
/// Fields of its spec that a plugin's configuration has under the same names.
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

/// What is known of the cluster around the node.
#[derive(Clone, Default)]
pub struct CoordinatorDefaults {
    coordinators: Arc<WatchCache<Map<String, Value>>>,
    service_cidrs: Arc<WatchCache<Vec<String>>>,
    pod_cidrs: Arc<OnceLock<Vec<String>>>,
}

impl CoordinatorDefaults {
    /// Follow the coordinator's object.
    pub async fn watch_coordinator(self, client: Client) {
        let api: Api<DeserializeGuard<SpiderCoordinator>> = Api::all(client);
        watch_forever("coordinators", api, watcher::Config::default(), |event: Event<_>| {
            self.coordinators.apply(map_event(event, |object: DeserializeGuard<SpiderCoordinator>| {
                let name = (String::new(), object.name_any());
                let read = object.0.ok().and_then(|object| serde_json::to_value(object).ok());
                (name, read.and_then(|object| object.as_object().cloned()))
            }));
        })
        .await;
    }

    /// Follow the subnets of services.
    pub async fn watch_service_cidrs(self, client: Client) {
        let api: Api<ServiceCIDR> = Api::all(client);
        watch_forever("subnets of services", api, watcher::Config::default(), |event: Event<_>| {
            self.service_cidrs.apply(map_event(event, |object: ServiceCIDR| {
                let name = (String::new(), object.name_any());
                (name, object.spec.and_then(|spec| spec.cidrs))
            }));
        })
        .await;
    }

    /// Read the subnets of this node's own pods, once.
    pub async fn read_pod_cidrs(self, client: Client, node: String) {
        let api: Api<Node> = Api::all(client);
        loop {
            match with_timeout(api.get(&node)).await {
                Ok(object) => {
                    let spec = object.spec.unwrap_or_default();
                    let subnets = spec.pod_cidrs.unwrap_or_else(|| spec.pod_cidr.into_iter().collect());
                    info!(?subnets, "pods of this node");
                    let _ = self.pod_cidrs.set(subnets);
                    return std::future::pending().await;
                }
                Err(e) => debug!(error = %error_chain(&e), "cannot read the node"),
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Put into a coordinator's configuration what it leaves out.
    pub fn fill(&self, plugin: &mut Map<String, Value>) {
        let empty = Map::new();
        let known = self.coordinators.get("", DEFAULT_COORDINATOR);
        let object = known.as_deref().unwrap_or(&empty);
        let section = |name: &str| object.get(name).and_then(Value::as_object).unwrap_or(&empty);
        let mut put = |key: &str, value: Option<Value>| {
            let absent = plugin.get(key).is_none_or(Value::is_null);
            if let Some(value) = value.filter(|value| absent && !value.is_null()) {
                plugin.insert(key.to_owned(), value);
            }
        };
        for field in SPEC_FIELDS {
            put(field, section("spec").get(field).cloned());
        }
        let told = |key: &str| {
            let list = section("status").get(key).and_then(Value::as_array);
            list.filter(|list| !list.is_empty()).map(|list| json!(list))
        };
        let services = || {
            let all: Vec<String> =
                self.service_cidrs.list().into_iter().flat_map(|(_, subnets)| subnets.to_vec()).collect();
            json!(all)
        };
        put("serviceCIDR", Some(told("serviceCIDR").unwrap_or_else(services)));
        let pods = || json!(self.pod_cidrs.get().cloned().unwrap_or_default());
        put("overlayPodCIDR", Some(told("overlayPodCIDR").unwrap_or_else(pods)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(surroundings: &CoordinatorDefaults, plugin: Value) -> Value {
        let mut plugin = plugin.as_object().unwrap().clone();
        surroundings.fill(&mut plugin);
        Value::Object(plugin)
    }

    #[test]
    fn the_plugins_own_words_go_first_then_the_objects_then_what_the_cluster_shows() {
        let known = CoordinatorDefaults::default();
        let name = || (String::new(), DEFAULT_COORDINATOR.to_owned());
        assert_eq!(
            filled(&known, json!({"type": "coordinator"})),
            json!({"type": "coordinator", "serviceCIDR": [], "overlayPodCIDR": []})
        );
        known
            .service_cidrs
            .apply(Event::Apply(((String::new(), "kubernetes".into()), Some(vec!["10.96.0.0/16".into()]))));
        known.pod_cidrs.set(vec!["10.78.1.0/24".into()]).unwrap();
        let seen = filled(&known, json!({}));
        assert_eq!(
            (&seen["serviceCIDR"], &seen["overlayPodCIDR"]),
            (&json!(["10.96.0.0/16"]), &json!(["10.78.1.0/24"]))
        );
        let object = json!({"spec": {"mode": "underlay", "hostRuleTable": 600, "podCIDRType": "auto"},
            "status": {"phase": "Synced", "overlayPodCIDR": ["10.78.0.0/16"]}});
        known.coordinators.apply(Event::Apply((name(), object.as_object().cloned())));
        let seen = filled(&known, json!({"mode": "overlay", "vethMTU": 1400}));
        assert_eq!(
            seen,
            json!({"mode": "overlay", "vethMTU": 1400, "hostRuleTable": 600, "serviceCIDR": ["10.96.0.0/16"],
                "overlayPodCIDR": ["10.78.0.0/16"]})
        );
    }
}
