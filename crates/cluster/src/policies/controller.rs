//! The policy controller: writes the specs of SriovNetworkNodeStates and the conditions of policies and
//! pools, and deletes the SriovNetworkNodeStates of deleted nodes.

use super::{
    PolicyCaches, PolicyDecision,
    conditions::transitions,
    decide,
    node_state_gc::{NodeStateAction, node_state_action, parse_delay},
    updated_conditions,
};
use crate::{
    ControllerContext, Error,
    object_writes::{
        apply_object, apply_object_status, delete_unchanged, get_object, unless_outdated, write_all,
    },
};
use ferroband_api::sriov::{
    ConditionsStatus, KEEP_STATE_UNTIL, SriovNetworkNodeState, SriovNetworkNodeStateSpec,
};
use ferroband_daemon::{ApiKind, Controller, Trigger, merge_patch, start_controller, tasks::TaskSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Node, apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Resource, ResourceExt, runtime::events::EventType};
use parking_lot::Mutex;
use serde_json::json;
use std::{collections::HashMap, time::Duration};

/// The controller that turns policies into specs of SriovNetworkNodeStates.
pub struct PolicyController {
    context: ControllerContext,
    caches: PolicyCaches,
    stale_state_delay: SignedDuration,
    /// By node: the resourceVersion that the SriovNetworkNodeState had before the last write, and the spec
    /// that was written. Prevents a second write while the cache is outdated.
    written: Mutex<HashMap<String, (String, SriovNetworkNodeStateSpec)>>,
}

impl PolicyController {
    pub fn start(context: &ControllerContext, caches: &PolicyCaches, tasks: &mut TaskSet<Error>) {
        let trigger = Trigger::default()
            .on_change(&caches.nodes)
            .on_change(&caches.states)
            .on_change(&caches.pools)
            .on_change(&caches.policies)
            .on_change(&caches.operators);
        let variable = std::env::var("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES").ok();
        let controller = Self {
            context: context.clone(),
            caches: caches.clone(),
            stale_state_delay: parse_delay(variable.as_deref()),
            written: Mutex::default(),
        };
        start_controller(tasks, controller, trigger);
    }

    fn node_state_api(&self) -> Api<SriovNetworkNodeState> {
        Api::namespaced(self.context.client.clone(), &self.context.settings.namespace)
    }

    /// Writes the decided spec to every SriovNetworkNodeState whose current spec differs from it.
    async fn write_node_specs(&self, decision: &PolicyDecision) -> Result<(), Error> {
        let own = &self.context.settings.namespace;
        let mut due = Vec::new();
        for (node, spec) in &decision.specs {
            let Some(state) = self.caches.states.get(own, node) else { continue };
            let version = state.resource_version().unwrap_or_default();
            let written = self.written.lock();
            let known = written.get(node).is_some_and(|(at, what)| *at == version && what == spec);
            if state.spec != *spec && !known {
                due.push((node, spec, version));
            }
        }
        let write = async |(node, spec, version): (&String, &SriovNetworkNodeStateSpec, String)| {
            // Always set `interfaces`, even if it is empty. Otherwise the spec would become null when the last adapter
            // is removed, and the API server would reject it.
            let mut desired = json!({ "interfaces": spec.interfaces });
            if let Some(system) = &spec.system {
                desired["system"] = json!(system);
            }
            apply_object(&self.node_state_api(), node, json!({ "spec": desired })).await?;
            tracing::info!(node, adapters = spec.interfaces.len(), "spec of SriovNetworkNodeState written");
            let mut written = self.written.lock();
            written.insert(node.clone(), (version, spec.clone()));
            Ok::<_, Error>(())
        };
        write_all(due.into_iter().map(write)).await
    }

    /// Writes the conditions of a policy or pool if they changed, and publishes an event for each new status
    /// or reason.
    async fn write_conditions<K>(
        &self,
        object: &K,
        current: &[Condition],
        desired: &[Condition],
    ) -> Result<(), Error>
    where
        K: ApiKind + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let generation = object.meta().generation;
        let Some(next) = updated_conditions(current, desired, generation, Timestamp::now()) else {
            return Ok(());
        };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &namespace);
        apply_object_status(&api, &name, &ConditionsStatus { conditions: next.clone() }).await?;
        for condition in transitions(current, &next) {
            let kind = if condition.status == "True" { EventType::Normal } else { EventType::Warning };
            // A policy that is in progress or matches nothing yet is not worth an event.
            if condition.reason != "InProgress" && condition.reason != "NoMatch" {
                self.context.events.publish(object, kind, &condition.reason, condition.message.clone()).await;
            }
        }
        Ok(())
    }

    async fn node_exists(&self, name: &str) -> Result<bool, Error> {
        let api: Api<Node> = Api::all(self.context.client.clone());
        get_object(&api, name).await.map(|node| node.is_some())
    }

    /// Deletes the SriovNetworkNodeStates of nodes that have been deleted for `stale_state_delay`. If the
    /// node was deleted more recently, annotates its SriovNetworkNodeState with the time until which it is
    /// kept.
    async fn collect_stale_states(&self) -> Result<(), Error> {
        let now = Timestamp::now();
        for ((namespace, name), state) in self.caches.states.list() {
            let node_exists = self.caches.nodes.get("", &name).is_some();
            let keep_until = state.annotations().get(KEEP_STATE_UNTIL).map(String::as_str);
            let about = format!("SriovNetworkNodeState {namespace}/{name}");
            let mark = async |until: Option<String>| {
                let patch = json!({ "metadata": { "annotations": { KEEP_STATE_UNTIL: until } } });
                merge_patch(&self.node_state_api(), &name, &patch).await
            };
            match node_state_action(node_exists, keep_until, now, self.stale_state_delay) {
                NodeStateAction::Keep => {}
                NodeStateAction::Mark(until) => {
                    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                    mark(Some(until)).await.map_err(Error::api("annotate", about))?;
                }
                NodeStateAction::Unmark => {
                    mark(None).await.map_err(Error::api("remove the annotation of", about))?;
                }
                // The cache may be outdated.
                NodeStateAction::Delete if self.node_exists(&name).await? => {}
                NodeStateAction::Delete => {
                    let deleted = delete_unchanged(&self.node_state_api(), &state).await;
                    unless_outdated(deleted, "delete", about)?;
                }
            }
        }
        Ok(())
    }
}

impl Controller for PolicyController {
    const NAME: &'static str = "policies";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let own = self.context.settings.namespace.clone();
        let trusted_namespaces = self.context.settings.trusted_namespaces();
        let policies = self.caches.policies.values();
        let nodes = self.caches.policy_nodes(&own);
        let (pools, invalid) = self.caches.node_pools(&trusted_namespaces);
        let decision =
            decide(policies, &nodes, &pools, &self.caches.operator_config(&own), &trusted_namespaces);
        self.write_node_specs(&decision).await?;
        // Continue after a failure: one object must not keep the conditions of others from being written.
        let mut failed = None;
        for (policy, desired) in &decision.policies {
            let current = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
            failed = self.write_conditions(policy.as_ref(), current, desired).await.err().or(failed);
        }
        let invalid = invalid.into_iter().map(|(pool, problem)| {
            (pool, vec![super::new_condition("Ready", false, "InvalidConfig", problem)])
        });
        for (pool, desired) in decision.pools.into_iter().chain(invalid) {
            let current = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
            failed = self.write_conditions(pool.as_ref(), current, &desired).await.err().or(failed);
        }
        self.collect_stale_states().await?;
        failed.map_or(Ok(None), Err)
    }
}
