//! The leader's work: look, decide, write what differs.

use super::{
    NodePools, PolicyDecision, PolicyNode,
    conditions::transitions,
    decide,
    node_state_gc::{NodeStateAction, node_state_action, parse_delay},
    updated_conditions,
};
use crate::{Controller, ControllerContext, Error, Reflector, Trigger, run_controller};
use ferroband_api::sriov::{
    ConditionsStatus, KEEP_STATE_UNTIL, SriovNetworkNodePolicy, SriovNetworkNodeState,
    SriovNetworkNodeStateSpec, SriovNetworkPoolConfig, SriovOperatorConfig, SriovOperatorConfigSpec,
};
use ferroband_daemon::{
    api_call::{ApiFailure, classify, with_timeout},
    tasks::TaskSet,
};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Node, apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{events::EventType, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Who writes, for server-side apply.
const FIELD_MANAGER: &str = "ferroband-cluster";
/// Writes under way at once.
const MAX_CONCURRENT_WRITES: usize = 8;
/// How long a pass is put off until the caches are there.
const CACHE_RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Labels of a node.
pub type NodeLabels = Arc<BTreeMap<String, String>>;

/// What is watched for policies and for draining.
#[derive(Clone)]
pub struct PolicyCaches {
    /// Labels of all nodes.
    pub nodes: Reflector<NodeLabels>,
    /// Their states, without the single functions.
    pub states: Reflector<SriovNetworkNodeState>,
    /// The pools of nodes.
    pub pools: Reflector<SriovNetworkPoolConfig>,
    policies: Reflector<SriovNetworkNodePolicy>,
    operators: Reflector<SriovOperatorConfig>,
}

impl PolicyCaches {
    /// Begin to watch.
    pub fn start(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        let (client, own) = (&context.client, &context.settings.namespace);
        let all = watcher::Config::default;
        Self {
            nodes: Reflector::start(tasks, "nodes", Api::all(client.clone()), all(), |node: Node| {
                Some(Arc::new(node.metadata.labels.unwrap_or_default()))
            }),
            states: Reflector::start(
                tasks,
                "node states",
                Api::namespaced(client.clone(), own),
                all(),
                |mut state: SriovNetworkNodeState| {
                    // A hundred functions a node, and none of them matters here.
                    for nic in state.status.iter_mut().flat_map(|status| &mut status.interfaces) {
                        nic.vfs = Vec::new();
                    }
                    Some(state)
                },
            ),
            pools: Reflector::start(tasks, "pools of nodes", Api::all(client.clone()), all(), Some),
            policies: Reflector::start(tasks, "policies", Api::all(client.clone()), all(), Some),
            operators: Reflector::start(
                tasks,
                "operator configurations",
                Api::namespaced(client.clone(), own),
                all(),
                Some,
            ),
        }
    }

    /// Whether everything has been listed.
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced()
            && self.states.is_synced()
            && self.pools.is_synced()
            && self.policies.is_synced()
            && self.operators.is_synced()
    }

    /// The configuration.
    pub fn operator_config(&self, namespace: &str) -> SriovOperatorConfigSpec {
        self.operators.get(namespace, "default").map(|config| config.spec.clone()).unwrap_or_default()
    }

    /// All nodes with their states.
    pub fn policy_nodes(&self, namespace: &str) -> Vec<PolicyNode> {
        let view = |((_, name), labels): ((String, String), Arc<NodeLabels>)| PolicyNode {
            state: self.states.get(namespace, &name),
            labels: labels.as_ref().clone(),
            name,
        };
        self.nodes.list().into_iter().map(view).collect()
    }

    /// The pools in namespaces that count.
    pub fn node_pools(&self, honoured: &[&str]) -> (NodePools, Vec<(Arc<SriovNetworkPoolConfig>, String)>) {
        let all = self.pools.list().into_iter();
        NodePools::from_objects(
            all.filter(|((namespace, _), _)| honoured.contains(&namespace.as_str())).map(|(_, pool)| pool),
        )
    }
}

/// Policies become node states.
pub struct PolicyController {
    context: ControllerContext,
    caches: PolicyCaches,
    stale_state_delay: SignedDuration,
    /// What was written to which version of which node state: the cache shows it a moment later.
    written: Mutex<HashMap<String, (String, SriovNetworkNodeStateSpec)>>,
}

impl PolicyController {
    /// Start the work.
    pub fn start(context: &ControllerContext, seen: &PolicyCaches, tasks: &mut TaskSet<Error>) {
        let wake = Trigger::default()
            .on_change(tasks, &seen.nodes)
            .on_change(tasks, &seen.states)
            .on_change(tasks, &seen.pools)
            .on_change(tasks, &seen.policies)
            .on_change(tasks, &seen.operators);
        let variable = std::env::var("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES").ok();
        let work = Self {
            context: context.clone(),
            caches: seen.clone(),
            stale_state_delay: parse_delay(variable.as_deref()),
            written: Mutex::default(),
        };
        tasks.start_endless(Self::NAME, run_controller(work, wake));
    }

    fn node_state_api(&self) -> Api<SriovNetworkNodeState> {
        Api::namespaced(self.context.client.clone(), &self.context.settings.namespace)
    }

    /// The node states that are not as they should be get written.
    async fn write_node_specs(&self, decision: &PolicyDecision) -> Result<(), Error> {
        let own = &self.context.settings.namespace;
        let mut due = Vec::new();
        for (node, spec) in &decision.specs {
            let Some(state) = self.caches.states.get(own, node) else { continue };
            let version = state.resource_version().unwrap_or_default();
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let known = written.get(node).is_some_and(|(at, what)| *at == version && what == spec);
            if state.spec != *spec && !known {
                due.push((node, spec, version));
            }
        }
        let write = async |(node, spec, version): (&String, &SriovNetworkNodeStateSpec, String)| {
            // Without a field of its own the spec would become null when the last adapter goes, which is refused.
            let mut wanted = json!({ "interfaces": spec.interfaces });
            if let Some(system) = &spec.system {
                wanted["system"] = json!(system);
            }
            let state = json!({
                "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
                "metadata": { "name": node }, "spec": wanted,
            });
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let done = with_timeout(self.node_state_api().patch(node, &params, &Patch::Apply(&state))).await;
            done.map_err(Error::api("apply", format!("SriovNetworkNodeState {own}/{node}")))?;
            tracing::info!(node, adapters = spec.interfaces.len(), "node state written");
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.insert(node.clone(), (version, spec.clone()));
            Ok::<_, Error>(())
        };
        stream::iter(due).map(write).buffer_unordered(MAX_CONCURRENT_WRITES).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Tell what came of an object, if that is news.
    async fn write_conditions<K>(
        &self,
        object: &K,
        there: &[Condition],
        wanted: &[Condition],
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let generation = object.meta().generation;
        let Some(next) = updated_conditions(there, wanted, generation, Timestamp::now()) else {
            return Ok(());
        };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &namespace);
        let body = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name },
            "status": ConditionsStatus { conditions: next.clone() },
        });
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match with_timeout(api.patch_status(&name, &params, &Patch::Apply(&body))).await {
            Ok(_) => {}
            // Deleted meanwhile.
            Err(e) if classify(&e) == ApiFailure::NotFound => return Ok(()),
            Err(e) => return Err(Error::api("tell", format!("{} {namespace}/{name}", K::kind(&())))(e)),
        }
        for condition in transitions(there, &next) {
            let kind = if condition.status == "True" { EventType::Normal } else { EventType::Warning };
            // That it is not ready yet is no news.
            if condition.reason != "InProgress" && condition.reason != "NoMatch" {
                self.context.publish_event(object, kind, &condition.reason, condition.message.clone()).await;
            }
        }
        Ok(())
    }

    /// States of nodes that are gone go, too, after a while.
    async fn collect_stale_states(&self) -> Result<(), Error> {
        let now = Timestamp::now();
        for ((namespace, name), state) in self.caches.states.list() {
            let there = self.caches.nodes.get("", &name).is_some();
            let kept = state.annotations().get(KEEP_STATE_UNTIL).map(String::as_str);
            let about = format!("SriovNetworkNodeState {namespace}/{name}");
            let mark = async |until: Option<String>| {
                let patch = json!({ "metadata": { "annotations": { KEEP_STATE_UNTIL: until } } });
                with_timeout(self.node_state_api().patch_metadata(
                    &name,
                    &PatchParams::default(),
                    &Patch::Merge(&patch),
                ))
                .await
            };
            match node_state_action(there, kept, now, self.stale_state_delay) {
                NodeStateAction::Keep => {}
                NodeStateAction::Mark(until) => {
                    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                    mark(Some(until)).await.map_err(Error::api("mark", about))?;
                }
                NodeStateAction::Unmark => {
                    mark(None).await.map_err(Error::api("unmark", about))?;
                }
                NodeStateAction::Delete => {
                    let same = Preconditions { uid: state.uid(), resource_version: state.resource_version() };
                    let params = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
                    match with_timeout(self.node_state_api().delete(&name, &params)).await {
                        Err(e) if !matches!(classify(&e), ApiFailure::NotFound | ApiFailure::Conflict) => {
                            return Err(Error::api("delete", about)(e));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

impl Controller for PolicyController {
    const NAME: &'static str = "policies";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !self.caches.is_synced() {
            return Ok(Some(CACHE_RECHECK_INTERVAL));
        }
        let own = self.context.settings.namespace.clone();
        let honoured = self.context.settings.system_namespaces();
        let policies = self.caches.policies.list().into_iter().map(|(_, policy)| policy).collect();
        let nodes = self.caches.policy_nodes(&own);
        let (pools, wrong) = self.caches.node_pools(&honoured);
        let decision = decide(policies, &nodes, &pools, &self.caches.operator_config(&own), &honoured);
        self.write_node_specs(&decision).await?;
        for (policy, wanted) in &decision.policies {
            let there = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
            self.write_conditions(policy.as_ref(), there, wanted).await?;
        }
        let wrong = wrong
            .into_iter()
            .map(|(pool, why)| (pool, vec![super::new_condition("Ready", false, "InvalidConfig", why)]));
        for (pool, wanted) in decision.pools.into_iter().chain(wrong) {
            let there = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
            self.write_conditions(pool.as_ref(), there, &wanted).await?;
        }
        self.collect_stale_states().await?;
        Ok(None)
    }
}
