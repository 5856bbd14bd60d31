//! The leader's work: look, decide, write what differs.

use super::{
    Decision, NodeView, Pools, changed,
    conditions::turned,
    decide,
    stale::{Stale, delay, stale},
};
use crate::{Context, Error, Wake, Watched, Work, keep};
use ferroband_api::sriov::{
    ConditionsStatus, KEEP_STATE_UNTIL, SriovNetworkNodePolicy, SriovNetworkNodeState,
    SriovNetworkNodeStateSpec, SriovNetworkPoolConfig, SriovOperatorConfig, SriovOperatorConfigSpec,
};
use ferroband_daemon::{
    call::{Failure, bounded, failure},
    tasks::Tasks,
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
const WRITER: &str = "ferroband-cluster";
/// Writes under way at once.
const AT_ONCE: usize = 8;
/// How long a pass is put off until the caches are there.
const SOON: Duration = Duration::from_millis(500);

/// Labels of a node.
pub type Labels = Arc<BTreeMap<String, String>>;

/// What is watched for policies and for draining.
#[derive(Clone)]
pub struct Seen {
    /// Labels of all nodes.
    pub nodes: Watched<Labels>,
    /// Their states, without the single functions.
    pub states: Watched<SriovNetworkNodeState>,
    /// The pools of nodes.
    pub pools: Watched<SriovNetworkPoolConfig>,
    policies: Watched<SriovNetworkNodePolicy>,
    operators: Watched<SriovOperatorConfig>,
}

impl Seen {
    /// Begin to watch.
    pub fn start(context: &Context, tasks: &mut Tasks<Error>) -> Self {
        let (client, own) = (&context.client, &context.settings.namespace);
        let all = watcher::Config::default;
        Self {
            nodes: Watched::start(tasks, "nodes", Api::all(client.clone()), all(), |node: Node| {
                Some(Arc::new(node.metadata.labels.unwrap_or_default()))
            }),
            states: Watched::start(
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
            pools: Watched::start(tasks, "pools of nodes", Api::all(client.clone()), all(), Some),
            policies: Watched::start(tasks, "policies", Api::all(client.clone()), all(), Some),
            operators: Watched::start(
                tasks,
                "operator configurations",
                Api::namespaced(client.clone(), own),
                all(),
                Some,
            ),
        }
    }

    /// Whether everything has been listed.
    pub fn complete(&self) -> bool {
        self.nodes.is_complete()
            && self.states.is_complete()
            && self.pools.is_complete()
            && self.policies.is_complete()
            && self.operators.is_complete()
    }

    /// The configuration.
    pub fn operator(&self, namespace: &str) -> SriovOperatorConfigSpec {
        self.operators.get(namespace, "default").map(|config| config.spec.clone()).unwrap_or_default()
    }

    /// All nodes with their states.
    pub fn nodes(&self, namespace: &str) -> Vec<NodeView> {
        let view = |((_, name), labels): ((String, String), Arc<Labels>)| NodeView {
            state: self.states.get(namespace, &name),
            labels: labels.as_ref().clone(),
            name,
        };
        self.nodes.all().into_iter().map(view).collect()
    }

    /// The pools in namespaces that count.
    pub fn pools(&self, honoured: &[&str]) -> (Pools, Vec<(Arc<SriovNetworkPoolConfig>, String)>) {
        let all = self.pools.all().into_iter();
        Pools::of(
            all.filter(|((namespace, _), _)| honoured.contains(&namespace.as_str())).map(|(_, pool)| pool),
        )
    }
}

/// Policies become node states.
pub struct Policies {
    context: Context,
    seen: Seen,
    keep_for: SignedDuration,
    /// What was written to which version of which node state: the cache shows it a moment later.
    written: Mutex<HashMap<String, (String, SriovNetworkNodeStateSpec)>>,
}

impl Policies {
    /// Start the work.
    pub fn start(context: &Context, seen: &Seen, tasks: &mut Tasks<Error>) {
        let wake = Wake::default()
            .on(tasks, &seen.nodes)
            .on(tasks, &seen.states)
            .on(tasks, &seen.pools)
            .on(tasks, &seen.policies)
            .on(tasks, &seen.operators);
        let variable = std::env::var("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES").ok();
        let work = Self {
            context: context.clone(),
            seen: seen.clone(),
            keep_for: delay(variable.as_deref()),
            written: Mutex::default(),
        };
        tasks.start_endless(Self::NAME, keep(work, wake));
    }

    fn states(&self) -> Api<SriovNetworkNodeState> {
        Api::namespaced(self.context.client.clone(), &self.context.settings.namespace)
    }

    /// The node states that are not as they should be get written.
    async fn write_specs(&self, decision: &Decision) -> Result<(), Error> {
        let own = &self.context.settings.namespace;
        let mut due = Vec::new();
        for (node, spec) in &decision.specs {
            let Some(state) = self.seen.states.get(own, node) else { continue };
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
            let params = PatchParams::apply(WRITER).force();
            let done = bounded(self.states().patch(node, &params, &Patch::Apply(&state))).await;
            done.map_err(Error::api("apply", format!("SriovNetworkNodeState {own}/{node}")))?;
            tracing::info!(node, adapters = spec.interfaces.len(), "node state written");
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.insert(node.clone(), (version, spec.clone()));
            Ok::<_, Error>(())
        };
        stream::iter(due).map(write).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Tell what came of an object, if that is news.
    async fn tell<K>(&self, object: &K, there: &[Condition], wanted: &[Condition]) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let generation = object.meta().generation;
        let Some(next) = changed(there, wanted, generation, Timestamp::now()) else { return Ok(()) };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &namespace);
        let body = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name },
            "status": ConditionsStatus { conditions: next.clone() },
        });
        let params = PatchParams::apply(WRITER).force();
        match bounded(api.patch_status(&name, &params, &Patch::Apply(&body))).await {
            Ok(_) => {}
            // Deleted meanwhile.
            Err(e) if failure(&e) == Failure::NotFound => return Ok(()),
            Err(e) => return Err(Error::api("tell", format!("{} {namespace}/{name}", K::kind(&())))(e)),
        }
        for condition in turned(there, &next) {
            let kind = if condition.status == "True" { EventType::Normal } else { EventType::Warning };
            // That it is not ready yet is no news.
            if condition.reason != "InProgress" && condition.reason != "NoMatch" {
                self.context.event(object, kind, &condition.reason, condition.message.clone()).await;
            }
        }
        Ok(())
    }

    /// States of nodes that are gone go, too, after a while.
    async fn clean_up(&self) -> Result<(), Error> {
        let now = Timestamp::now();
        for ((namespace, name), state) in self.seen.states.all() {
            let there = self.seen.nodes.get("", &name).is_some();
            let kept = state.annotations().get(KEEP_STATE_UNTIL).map(String::as_str);
            let about = format!("SriovNetworkNodeState {namespace}/{name}");
            let mark = async |until: Option<String>| {
                let patch = json!({ "metadata": { "annotations": { KEEP_STATE_UNTIL: until } } });
                bounded(self.states().patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch)))
                    .await
            };
            match stale(there, kept, now, self.keep_for) {
                Stale::Fine => {}
                Stale::Mark(until) => {
                    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                    mark(Some(until)).await.map_err(Error::api("mark", about))?;
                }
                Stale::Unmark => {
                    mark(None).await.map_err(Error::api("unmark", about))?;
                }
                Stale::Delete => {
                    let same = Preconditions { uid: state.uid(), resource_version: state.resource_version() };
                    let params = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
                    match bounded(self.states().delete(&name, &params)).await {
                        Err(e) if !matches!(failure(&e), Failure::NotFound | Failure::Conflict) => {
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

impl Work for Policies {
    const NAME: &'static str = "policies";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        if !self.seen.complete() {
            return Ok(Some(SOON));
        }
        let own = self.context.settings.namespace.clone();
        let honoured = self.context.settings.honoured();
        let policies = self.seen.policies.all().into_iter().map(|(_, policy)| policy).collect();
        let nodes = self.seen.nodes(&own);
        let (pools, wrong) = self.seen.pools(&honoured);
        let decision = decide(policies, &nodes, &pools, &self.seen.operator(&own), &honoured);
        self.write_specs(&decision).await?;
        for (policy, wanted) in &decision.policies {
            let there = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
            self.tell(policy.as_ref(), there, wanted).await?;
        }
        let wrong = wrong
            .into_iter()
            .map(|(pool, why)| (pool, vec![super::condition("Ready", false, "InvalidConfig", why)]));
        for (pool, wanted) in decision.pools.into_iter().chain(wrong) {
            let there = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
            self.tell(pool.as_ref(), there, &wanted).await?;
        }
        self.clean_up().await?;
        Ok(None)
    }
}
