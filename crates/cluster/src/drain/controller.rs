//! Drains the nodes that request it, within the drain budgets of their SriovNetworkPoolConfigs.

use super::{
    evict::{self, EvictionRequests},
    step::{DrainStep, is_draining, next_step},
};
use crate::{
    ControllerContext, Error,
    last_events::LastEvents,
    node_facts::NodeLabels,
    object_writes::unless_outdated,
    policies::{DrainBudget, NodePools, PolicyCaches},
};
use ferroband_api::sriov::{CURRENT_STATE, DRAIN_COMPLETE, DRAINING, IDLE, SriovNetworkNodeState};
use ferroband_daemon::{Controller, Trigger, merge_patch, start_controller, tasks::TaskSet};
use kube::{Api, ResourceExt, runtime::events::EventType};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// How often the remaining pods of draining nodes are checked.
const DRAIN_RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often to check whether a node that waits for the drain budget of its pool may be drained.
const BUDGET_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The controller that evicts pods from nodes that request a drain, and reports progress in annotations.
pub struct DrainController {
    context: ControllerContext,
    caches: PolicyCaches,
    eviction_requests: EvictionRequests,
    last_events: LastEvents,
}

impl DrainController {
    pub fn start(context: &ControllerContext, caches: &PolicyCaches, tasks: &mut TaskSet<Error>) {
        let trigger =
            Trigger::default().on_change(&caches.states).on_change(&caches.pools).after_sync(&caches.nodes);
        let controller = Self {
            context: context.clone(),
            caches: caches.clone(),
            eviction_requests: EvictionRequests::default(),
            last_events: LastEvents::default(),
        };
        start_controller(tasks, controller, trigger);
    }

    async fn set_current_state(&self, state: &SriovNetworkNodeState, current: &str) -> Result<(), Error> {
        let (own, node) = (&self.context.settings.namespace, state.name_any());
        let api: Api<SriovNetworkNodeState> = Api::namespaced(self.context.client.clone(), own);
        // The resourceVersion makes the patch fail if the SriovNetworkNodeState has changed, so two leaders
        // cannot both start a drain.
        let patch = json!({ "metadata": {
            "annotations": { CURRENT_STATE: current }, "resourceVersion": state.resource_version(),
        } });
        let patched = merge_patch(&api, &node, &patch).await;
        if unless_outdated(patched, "annotate", format!("SriovNetworkNodeState {own}/{node}"))?.is_some() {
            tracing::info!(node, current, "drain state changed");
        }
        Ok(())
    }

    /// Publishes an event about a node, unless the last event about this node had the same reason and note.
    async fn publish_once(&self, state: &SriovNetworkNodeState, kind: EventType, reason: &str, note: String) {
        if self.last_events.insert_if_new(&state.uid().unwrap_or_default(), &format!("{reason} {note}")) {
            self.context.events.publish(state, kind, reason, note).await;
        }
    }

    async fn evict_pods(&self, state: &SriovNetworkNodeState, all: bool) -> Result<(), Error> {
        let node = state.name_any();
        let result = if all {
            evict::cordon(&self.context, &node).await?;
            evict::evict_all(&self.context, &self.eviction_requests, &node).await?
        } else {
            let holders = state.status.as_ref().map(|status| status.holders.as_slice()).unwrap_or_default();
            evict::evict_holders(&self.context, &self.eviction_requests, holders).await?
        };
        if !result.blocked.is_empty() {
            self.publish_once(state, EventType::Warning, "DrainBlocked", result.blocked.join("; ")).await;
        }
        if result.remaining == 0 {
            self.set_current_state(state, DRAIN_COMPLETE).await?;
            self.publish_once(
                state,
                EventType::Normal,
                "DrainComplete",
                "no pod holds an affected device".to_owned(),
            )
            .await;
        }
        Ok(())
    }

    /// Starts to drain as many of the nodes `requesting` as the budgets of their pools allow. Returns whether
    /// at least one has to wait.
    async fn start_drains(
        &self,
        requesting: Vec<Arc<SriovNetworkNodeState>>,
        states: &[Arc<SriovNetworkNodeState>],
        nodes: &BTreeMap<String, NodeLabels>,
        pools: &NodePools,
    ) -> Result<bool, Error> {
        let pool_of = |node: &str| nodes.get(node).map(|labels| pools.pool_for(labels));
        let key = |node: &str| match pool_of(node) {
            Some(Ok(pool)) => Some(pool.map(|pool| (pool.namespace(), pool.name_any()))),
            _ => None,
        };
        let mut draining: HashMap<_, usize> = HashMap::new();
        let mut sizes: HashMap<_, usize> = HashMap::new();
        for node in nodes.keys() {
            *sizes.entry(key(node)).or_default() += 1;
        }
        for state in states.iter().filter(|state| is_draining(state)) {
            *draining.entry(key(&state.name_any())).or_default() += 1;
        }
        let mut waiting = false;
        for state in requesting {
            let node = state.name_any();
            let pool = match pool_of(&node) {
                None => continue,
                Some(Err(names)) => {
                    let note = format!(
                        "the node is in several SriovNetworkPoolConfigs: {}; change their nodeSelectors so that only one selects it; until then it is not drained",
                        names.join(", ")
                    );
                    self.publish_once(&state, EventType::Warning, "NodeInTwoPools", note).await;
                    continue;
                }
                Some(Ok(pool)) => pool,
            };
            let key = key(&node);
            let now = draining.entry(key.clone()).or_default();
            let size = sizes.get(&key).copied().unwrap_or_default();
            match DrainBudget::of_pool(pool.map(Arc::as_ref), size) {
                Ok(budget) if budget.allows(*now) => {
                    *now += 1;
                    self.set_current_state(&state, DRAINING).await?;
                    let holders = state.status.iter().flat_map(|status| &status.holders);
                    let names: Vec<_> = holders.map(|h| format!("{}/{}", h.namespace, h.name)).collect();
                    let note = format!("evicting the pods that hold affected devices: {}", names.join(", "));
                    self.publish_once(&state, EventType::Normal, "Draining", note).await;
                }
                Ok(DrainBudget::AtMost(0)) => {
                    let note =
                        "maxUnavailable of the node's pool resolves to 0, so the node is never drained; use a number of 1 or more"
                            .to_owned();
                    self.publish_once(&state, EventType::Warning, "NeverDrains", note).await;
                }
                Ok(_) => waiting = true,
                Err(problem) => {
                    let note = format!("maxUnavailable of the node's pool: {problem}");
                    self.publish_once(&state, EventType::Warning, "InvalidConfig", note).await;
                }
            }
        }
        Ok(waiting)
    }
}

impl Controller for DrainController {
    const NAME: &'static str = "drain";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let states = self.caches.states.values();
        let mut requesting = Vec::new();
        let mut busy = false;
        let nodes = self.caches.nodes.list();
        for state in &states {
            match next_step(state, nodes.len()) {
                DrainStep::NoAction => {}
                DrainStep::Start => requesting.push(state.clone()),
                DrainStep::Evict { all } => {
                    busy = true;
                    self.evict_pods(state, all).await?;
                }
                DrainStep::Complete => self.set_current_state(state, DRAIN_COMPLETE).await?,
                DrainStep::Finish => {
                    evict::uncordon(&self.context, &state.name_any()).await?;
                    self.set_current_state(state, IDLE).await?;
                }
            }
        }
        if requesting.is_empty() {
            return Ok(busy.then_some(DRAIN_RECHECK_INTERVAL));
        }
        requesting.sort_by_key(|state| state.name_any());
        let (pools, _) = self.caches.node_pools(&self.context.settings.trusted_namespaces());
        let labels = nodes.into_iter().map(|((_, name), node)| (name, node.labels.clone())).collect();
        let waiting = self.start_drains(requesting, &states, &labels, &pools).await?;
        Ok(Some(if waiting && !busy { BUDGET_RECHECK_INTERVAL } else { DRAIN_RECHECK_INTERVAL }))
    }
}
