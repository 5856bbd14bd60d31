//! The node's object: written from the book, and heard of.

use super::node_partitions_state::NodePartitionsState;
use super::ports;
use crate::api_call::with_timeout;
use crate::error::error_chain;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsSpec, Partition};
use ferroband_attach::journal::Journal;
use ferroband_daemon::watch_cache::{WatchCache, map_event, watch_forever};
use ferroband_kernel::{Hardware, Root};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Changes of one moment are one write.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// How often the functions are looked at anew.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5);
/// Pauses after a failed write.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The book and its object.
pub struct NodePartitionsSync {
    node: String,
    client: Client,
    state: Mutex<NodePartitionsState>,
    changed: Notify,
    /// This node's object, as the API server has it.
    pub own_object: Arc<WatchCache<NodePartitions>>,
    /// Who may use which partition.
    pub partitions: Arc<WatchCache<Partition>>,
}

impl NodePartitionsSync {
    /// Of this node.
    pub fn new(client: Client, node: String) -> Self {
        Self {
            node,
            client,
            state: Mutex::default(),
            changed: Notify::new(),
            own_object: Arc::default(),
            partitions: Arc::default(),
        }
    }

    /// The book, for a moment.
    pub fn state(&self) -> MutexGuard<'_, NodePartitionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was entered or struck out.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// This node's object now.
    pub fn current_object(&self) -> Option<Arc<NodePartitions>> {
        self.own_object.get("", &self.node)
    }

    /// Watch what is needed, for ever.
    pub async fn run_watches(self: Arc<Self>) {
        let own = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let (kept, rules) = (self.own_object.clone(), self.partitions.clone());
        let named = |name: String| (String::new(), name);
        let mine = watch_forever(
            "this node's partitions",
            Api::<NodePartitions>::all(self.client.clone()),
            own,
            move |event| {
                kept.apply(map_event(event, |object| (named(object.name_any()), Some(object))));
            },
        );
        let all = watch_forever(
            "partitions",
            Api::<Partition>::all(self.client.clone()),
            watcher::Config::default(),
            move |event| {
                rules.apply(map_event(event, |object: Partition| (named(object.name_any()), Some(object))));
            },
        );
        tokio::join!(mine, all);
    }

    /// Keep the object as the book says, for ever.
    pub async fn run_writer(self: Arc<Self>, hardware: Arc<dyn Hardware>, root: Root) {
        self.restore_state(&root).await;
        let mut told: Option<NodePartitionsSpec> = None;
        let mut pause = MIN_BACKOFF;
        let mut quiet = false;
        loop {
            let look = hardware.clone();
            if let Ok(Some(seen)) = spawn_blocking(move || ports::list_function_guids(look.root())).await {
                self.state().update_functions(&seen);
            }
            let spec = self.state().spec();
            if told.as_ref() != Some(&spec) || (quiet && self.differs_from_object(&spec)) {
                match self.write(&spec).await {
                    Ok(generation) => {
                        self.state().record_written(&spec, generation);
                        (told, pause) = (Some(spec), MIN_BACKOFF);
                    }
                    Err(error) => {
                        warn!(error = %error_chain(&error), "this node's partitions are not written; trying again");
                        sleep(pause).await;
                        pause = (pause * 2).min(MAX_BACKOFF);
                        continue;
                    }
                }
            }
            quiet = timeout(RESYNC_INTERVAL, self.changed.notified()).await.is_err();
            if !quiet {
                sleep(BATCH_DELAY).await;
            }
        }
    }

    /// Whether the object says something else than what was written: somebody else wrote it or removed it, or the API
    /// server was restored from a backup. To be asked when nothing has been written for a while.
    fn differs_from_object(&self, spec: &NodePartitionsSpec) -> bool {
        self.own_object.is_synced() && self.current_object().is_none_or(|object| object.spec != *spec)
    }

    /// Take over what an earlier daemon wrote, as far as its sandboxes live. Not before this is known may anything be
    /// written: it would end memberships of running pods.
    async fn restore_state(&self, root: &Root) {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        loop {
            let found = with_timeout(api.get_opt(&self.node)).await;
            match found {
                Ok(None) => return,
                Ok(Some(object)) => {
                    let at = root.clone();
                    let alive = spawn_blocking(move || journaled_containers(&at)).await.ok().flatten();
                    // What lives cannot be told: all of it counts.
                    let all = || {
                        object.spec.members.keys().filter_map(|name| Some(name.split('.').next()?.to_owned()))
                    };
                    let alive = alive.unwrap_or_else(|| all().collect());
                    info!(
                        members = object.spec.members.len(),
                        sandboxes = alive.len(),
                        "partitions taken over"
                    );
                    return self.state().restore(&object, &alive);
                }
                Err(error) => {
                    warn!(error = %error_chain(&error), "this node's partitions are not to be had; trying again");
                    sleep(MAX_BACKOFF).await;
                }
            }
        }
    }

    async fn write(&self, spec: &NodePartitionsSpec) -> kube::Result<i64> {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let object = json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "NodePartitions",
            "metadata": {"name": self.node}, "spec": spec,
        });
        let params = PatchParams::apply("ferroband-node").force();
        let written = with_timeout(api.patch(&self.node, &params, &Patch::Apply(&object))).await?;
        Ok(written.metadata.generation.unwrap_or_default())
    }
}

/// The sandboxes that have a journal.
fn journaled_containers(root: &Root) -> Option<BTreeSet<String>> {
    let found = Journal::list(root).ok()?;
    // One that cannot be read may be anybody's.
    found.into_iter().map(|found| found.journal.ok().map(|journal| journal.container)).collect()
}
