//! The leader's work: nodes that need it are drained, no more of a pool at once than it allows.

use super::{
    evict::{self, Asked},
    step::{Step, is_draining, step},
};
use crate::{
    Context, Error, Wake, Work, keep,
    policies::{Budget, Labels, Pools, Seen},
};
use ferroband_api::sriov::{CURRENT_STATE, DRAIN_COMPLETE, DRAINING, IDLE, SriovNetworkNodeState};
use ferroband_daemon::{call::bounded, tasks::Tasks};
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
const DRAINING_AGAIN: Duration = Duration::from_secs(2);
/// How often a node that has to wait for others is looked at.
const WAITING_AGAIN: Duration = Duration::from_secs(5);

/// Nodes are drained.
pub struct Drain {
    context: Context,
    seen: Seen,
    asked: Asked,
    /// What was last told about a node, to say it once.
    told: Mutex<HashMap<String, String>>,
}

impl Drain {
    /// Start the work.
    pub fn start(context: &Context, seen: &Seen, tasks: &mut Tasks<Error>) {
        let wake = Wake::default().on(tasks, &seen.states).on(tasks, &seen.pools);
        let work = Self {
            context: context.clone(),
            seen: seen.clone(),
            asked: Asked::default(),
            told: Mutex::default(),
        };
        tasks.start_endless(Self::NAME, keep(work, wake));
    }

    async fn set(&self, state: &SriovNetworkNodeState, current: &str) -> Result<(), Error> {
        let (own, node) = (&self.context.settings.namespace, state.name_any());
        let api: Api<SriovNetworkNodeState> = Api::namespaced(self.context.client.clone(), own);
        // The version goes along: two leaders at once cannot both begin.
        let patch = json!({ "metadata": {
            "annotations": { CURRENT_STATE: current }, "resourceVersion": state.resource_version(),
        } });
        match bounded(api.patch_metadata(&node, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Ok(_) => tracing::info!(node, current, "drain"),
            // Seen too late; the next pass sees it anew.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(e) => return Err(Error::api("annotate", format!("SriovNetworkNodeState {own}/{node}"))(e)),
        }
        Ok(())
    }

    /// Tell something about a node, once.
    async fn tell(&self, state: &SriovNetworkNodeState, kind: EventType, reason: &str, note: String) {
        let node = state.name_any();
        let key = format!("{reason} {note}");
        let known = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.insert(node, key.clone()).as_ref() == Some(&key)
        };
        if !known {
            self.context.event(state, kind, reason, note).await;
        }
    }

    async fn evict(&self, state: &SriovNetworkNodeState, all: bool) -> Result<(), Error> {
        let node = state.name_any();
        let evicted = if all {
            evict::cordon(&self.context, &node).await?;
            evict::all(&self.context, &self.asked, &node).await?
        } else {
            let holders = state.status.as_ref().map(|status| status.holders.as_slice()).unwrap_or_default();
            evict::holders(&self.context, &self.asked, holders).await?
        };
        if !evicted.blocked.is_empty() {
            self.tell(state, EventType::Warning, "DrainBlocked", evicted.blocked.join("; ")).await;
        }
        if evicted.left == 0 {
            self.set(state, DRAIN_COMPLETE).await?;
            self.tell(state, EventType::Normal, "DrainComplete", "what held it is gone".to_owned()).await;
        }
        Ok(())
    }

    /// Begin with as many of `wanting` as the budgets of their pools allow.
    async fn begin(
        &self,
        wanting: Vec<Arc<SriovNetworkNodeState>>,
        states: &[Arc<SriovNetworkNodeState>],
        nodes: &BTreeMap<String, Labels>,
        pools: &Pools,
    ) -> Result<bool, Error> {
        let pool_of = |node: &str| nodes.get(node).map(|labels| pools.find(labels));
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
                    self.tell(&state, EventType::Warning, "NodeInTwoPools", note).await;
                    continue;
                }
                Some(Ok(pool)) => pool,
            };
            let key = key(&node);
            let now = draining.entry(key.clone()).or_default();
            let size = sizes.get(&key).copied().unwrap_or_default();
            match Budget::of(pool.map(Arc::as_ref), size) {
                Ok(budget) if budget.allows(*now) => {
                    *now += 1;
                    self.set(&state, DRAINING).await?;
                    let holders = state.status.iter().flat_map(|status| &status.holders);
                    let names: Vec<_> = holders.map(|h| format!("{}/{}", h.namespace, h.name)).collect();
                    let note = format!("pods that have to go: {}", names.join(", "));
                    self.tell(&state, EventType::Normal, "Draining", note).await;
                }
                Ok(Budget::AtMost(0)) => {
                    let note = "maxUnavailable of its pool resolves to 0; it is never drained".to_owned();
                    self.tell(&state, EventType::Warning, "NeverDrains", note).await;
                }
                Ok(_) => waiting = true,
                Err(why) => self.tell(&state, EventType::Warning, "InvalidConfig", why).await,
            }
        }
        Ok(waiting)
    }
}

impl Work for Drain {
    const NAME: &'static str = "drain";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        if !self.seen.complete() {
            return Ok(Some(DRAINING_AGAIN));
        }
        let states: Vec<_> = self.seen.states.all().into_iter().map(|(_, state)| state).collect();
        let mut wanting = Vec::new();
        let mut busy = false;
        let nodes = self.seen.nodes.all();
        for state in &states {
            match step(state, nodes.len()) {
                Step::Rest => {}
                Step::Begin => wanting.push(state.clone()),
                Step::Evict { all: every } => {
                    busy = true;
                    self.evict(state, every).await?;
                }
                Step::Complete => self.set(state, DRAIN_COMPLETE).await?,
                Step::Finish => {
                    evict::uncordon(&self.context, &state.name_any()).await?;
                    self.set(state, IDLE).await?;
                }
            }
        }
        if wanting.is_empty() {
            return Ok(busy.then_some(DRAINING_AGAIN));
        }
        wanting.sort_by_key(|state| state.name_any());
        let (pools, _) = self.seen.pools(&self.context.settings.honoured());
        let labels = nodes.into_iter().map(|((_, name), labels)| (name, labels.as_ref().clone())).collect();
        let waiting = self.begin(wanting, &states, &labels, &pools).await?;
        Ok(Some(if waiting && !busy { WAITING_AGAIN } else { DRAINING_AGAIN }))
    }
}
