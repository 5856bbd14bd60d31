//! The leader's work: nodes that need it are drained, no more of a pool at once than it allows.

use super::{
    evict::{self, EvictionRequests},
    step::{DrainStep, is_draining, next_step},
};
use crate::{
    Controller, ControllerContext, Error, Trigger,
    policies::{DrainBudget, NodeLabels, NodePools, PolicyCaches},
    run_controller,
};
use ferroband_api::sriov::{CURRENT_STATE, DRAIN_COMPLETE, DRAINING, IDLE, SriovNetworkNodeState};
use ferroband_daemon::{api_call::with_timeout, tasks::TaskSet};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::events::EventType,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often nodes that are being drained are looked at.
const DRAIN_RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How often a node that has to wait for others is looked at.
const BUDGET_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Nodes are drained.
pub struct DrainController {
    context: ControllerContext,
    caches: PolicyCaches,
    eviction_requests: EvictionRequests,
    /// What was last told about a node, to say it once.
    last_events: Mutex<HashMap<String, String>>,
}

impl DrainController {
    /// Start the work.
    pub fn start(context: &ControllerContext, seen: &PolicyCaches, tasks: &mut TaskSet<Error>) {
        let wake = Trigger::default().on_change(tasks, &seen.states).on_change(tasks, &seen.pools);
        let work = Self {
            context: context.clone(),
            caches: seen.clone(),
            eviction_requests: EvictionRequests::default(),
            last_events: Mutex::default(),
        };
        tasks.start_endless(Self::NAME, run_controller(work, wake));
    }

    async fn set_current_state(&self, state: &SriovNetworkNodeState, current: &str) -> Result<(), Error> {
        let (own, node) = (&self.context.settings.namespace, state.name_any());
        let api: Api<SriovNetworkNodeState> = Api::namespaced(self.context.client.clone(), own);
        // The version goes along: two leaders at once cannot both begin.
        let patch = json!({ "metadata": {
            "annotations": { CURRENT_STATE: current }, "resourceVersion": state.resource_version(),
        } });
        match with_timeout(api.patch_metadata(&node, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Ok(_) => tracing::info!(node, current, "drain"),
            // Seen too late; the next pass sees it anew.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(e) => return Err(Error::api("annotate", format!("SriovNetworkNodeState {own}/{node}"))(e)),
        }
        Ok(())
    }

    /// Tell something about a node, once.
    async fn publish_once(&self, state: &SriovNetworkNodeState, kind: EventType, reason: &str, note: String) {
        let node = state.name_any();
        let key = format!("{reason} {note}");
        let known = {
            let mut told = self.last_events.lock().unwrap_or_else(PoisonError::into_inner);
            told.insert(node, key.clone()).as_ref() == Some(&key)
        };
        if !known {
            self.context.publish_event(state, kind, reason, note).await;
        }
    }

    async fn evict_pods(&self, state: &SriovNetworkNodeState, all: bool) -> Result<(), Error> {
        let node = state.name_any();
        let evicted = if all {
            evict::cordon(&self.context, &node).await?;
            evict::evict_all(&self.context, &self.eviction_requests, &node).await?
        } else {
            let holders = state.status.as_ref().map(|status| status.holders.as_slice()).unwrap_or_default();
            evict::evict_holders(&self.context, &self.eviction_requests, holders).await?
        };
        if !evicted.blocked.is_empty() {
            self.publish_once(state, EventType::Warning, "DrainBlocked", evicted.blocked.join("; ")).await;
        }
        if evicted.remaining == 0 {
            self.set_current_state(state, DRAIN_COMPLETE).await?;
            self.publish_once(state, EventType::Normal, "DrainComplete", "what held it is gone".to_owned())
                .await;
        }
        Ok(())
    }

    /// Begin with as many of `wanting` as the budgets of their pools allow.
    async fn start_drains(
        &self,
        wanting: Vec<Arc<SriovNetworkNodeState>>,
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
        for state in wanting {
            let node = state.name_any();
            let pool = match pool_of(&node) {
                None => continue,
                Some(Err(names)) => {
                    let note =
                        format!("the node is in several pools: {}; it is in none drained", names.join(", "));
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
                    let note = format!("pods that have to go: {}", names.join(", "));
                    self.publish_once(&state, EventType::Normal, "Draining", note).await;
                }
                Ok(DrainBudget::AtMost(0)) => {
                    let note = "maxUnavailable of its pool resolves to 0; it is never drained".to_owned();
                    self.publish_once(&state, EventType::Warning, "NeverDrains", note).await;
                }
                Ok(_) => waiting = true,
                Err(why) => self.publish_once(&state, EventType::Warning, "InvalidConfig", why).await,
            }
        }
        Ok(waiting)
    }
}

impl Controller for DrainController {
    const NAME: &'static str = "drain";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        if !self.caches.is_synced() {
            return Ok(Some(DRAIN_RECHECK_INTERVAL));
        }
        let states: Vec<_> = self.caches.states.list().into_iter().map(|(_, state)| state).collect();
        let mut wanting = Vec::new();
        let mut busy = false;
        let nodes = self.caches.nodes.list();
        for state in &states {
            match next_step(state, nodes.len()) {
                DrainStep::NoAction => {}
                DrainStep::Start => wanting.push(state.clone()),
                DrainStep::Evict { all: every } => {
                    busy = true;
                    self.evict_pods(state, every).await?;
                }
                DrainStep::Complete => self.set_current_state(state, DRAIN_COMPLETE).await?,
                DrainStep::Finish => {
                    evict::uncordon(&self.context, &state.name_any()).await?;
                    self.set_current_state(state, IDLE).await?;
                }
            }
        }
        if wanting.is_empty() {
            return Ok(busy.then_some(DRAIN_RECHECK_INTERVAL));
        }
        wanting.sort_by_key(|state| state.name_any());
        let (pools, _) = self.caches.node_pools(&self.context.settings.system_namespaces());
        let labels = nodes.into_iter().map(|((_, name), labels)| (name, labels.as_ref().clone())).collect();
        let waiting = self.start_drains(wanting, &states, &labels, &pools).await?;
        Ok(Some(if waiting && !busy { BUDGET_RECHECK_INTERVAL } else { DRAIN_RECHECK_INTERVAL }))
    }
}
