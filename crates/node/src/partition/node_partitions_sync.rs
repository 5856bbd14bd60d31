//! Writes the desired partition members and functions to this node's NodePartitions object, and watches the
//! object's status.

use super::node_partitions_state::NodePartitionsState;
use super::ports;
use crate::api_call::with_timeout;
use crate::error::error_chain;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsSpec, Partition};
use ferroband_attach::journal::Journal;
use ferroband_daemon::{WatchCache, map_event, watch_forever};
use ferroband_kernel::{Hardware, Root};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// How long to wait after a change, so that several changes are written together.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// How often the virtual functions are read from sysfs while no change is notified.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before the first failed write is retried. It doubles with every further failure, up to
/// [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The desired content of this node's NodePartitions object, and caches of the API objects that it depends
/// on.
pub struct NodePartitionsSync {
    node: String,
    client: Client,
    state: Mutex<NodePartitionsState>,
    changed: Notify,
    /// Watch cache that contains only this node's NodePartitions object.
    pub own_object: Arc<WatchCache<NodePartitions>>,
    /// All Partition objects, which define the namespaces that may use each partition.
    pub partitions: Arc<WatchCache<Partition>>,
}

impl NodePartitionsSync {
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

    pub fn state(&self) -> MutexGuard<'_, NodePartitionsState> {
        self.state.lock()
    }

    /// Wakes the writer ([`Self::run_writer`]). Called after a member was added or removed.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// Returns this node's NodePartitions object from the watch cache, or `None` if it does not exist or the
    /// cache is not synced.
    pub fn current_object(&self) -> Option<Arc<NodePartitions>> {
        self.own_object.get("", &self.node)
    }

    /// Keeps the caches `own_object` and `partitions` in sync with the API server. Never returns.
    pub async fn run_watches(self: Arc<Self>) {
        let field_selector = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let (own_object, rules) = (self.own_object.clone(), self.partitions.clone());
        let named = |name: String| (String::new(), name);
        let own_watch = watch_forever(
            "NodePartitions of this node",
            Api::<NodePartitions>::all(self.client.clone()),
            field_selector,
            move |event| {
                own_object.apply(map_event(event, |object| (named(object.name_any()), Some(object))));
            },
        );
        let partition_watch = watch_forever(
            "partitions",
            Api::<Partition>::all(self.client.clone()),
            watcher::Config::default(),
            move |event| {
                rules.apply(map_event(event, |object: Partition| (named(object.name_any()), Some(object))));
            },
        );
        tokio::join!(own_watch, partition_watch);
    }

    /// Restores the desired state from this node's NodePartitions object once. After that, writes the desired
    /// state to the object whenever the two differ. Never returns.
    pub async fn run_writer(self: Arc<Self>, hardware: Arc<dyn Hardware>, root: Root) {
        self.restore_state(&root).await;
        let mut written: Option<NodePartitionsSpec> = None;
        let mut pause = MIN_BACKOFF;
        let mut idle = false;
        loop {
            let hardware_clone = hardware.clone();
            if let Ok(Some(functions)) =
                spawn_blocking(move || ports::list_function_guids(hardware_clone.root())).await
            {
                self.state().update_functions(&functions);
            }
            let spec = self.state().spec();
            if written.as_ref() != Some(&spec) || (idle && self.differs_from_object(&spec)) {
                match self.write(&spec).await {
                    Ok(generation) => {
                        self.state().record_written(&spec, generation);
                        (written, pause) = (Some(spec), MIN_BACKOFF);
                    }
                    Err(error) => {
                        warn!(error = %error_chain(&error), "cannot write NodePartitions, retrying");
                        sleep(pause).await;
                        pause = (pause * 2).min(MAX_BACKOFF);
                        continue;
                    }
                }
            }
            idle = timeout(RESYNC_INTERVAL, self.changed.notified()).await.is_err();
            if !idle {
                sleep(BATCH_DELAY).await;
            }
        }
    }

    /// Whether the cached NodePartitions object differs from `spec`, which was written earlier. If so, the
    /// object was changed or deleted externally, or the API server was restored from a backup. Right after a
    /// write, the cache may simply be stale.
    fn differs_from_object(&self, spec: &NodePartitionsSpec) -> bool {
        self.own_object.is_synced() && self.current_object().is_none_or(|object| object.spec != *spec)
    }

    /// Restores the members of existing sandboxes from the NodePartitions object. If the object were written
    /// before that, the memberships of running pods would be removed.
    async fn restore_state(&self, root: &Root) {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        loop {
            let found = with_timeout(api.get_opt(&self.node)).await;
            match found {
                Ok(None) => return,
                Ok(Some(object)) => {
                    let at = root.clone();
                    let alive = spawn_blocking(move || journaled_containers(&at)).await.ok().flatten();
                    // If the journals cannot be read, every sandbox counts as alive.
                    let all = || {
                        object.spec.members.keys().filter_map(|name| Some(name.split('.').next()?.to_owned()))
                    };
                    let alive = alive.unwrap_or_else(|| all().collect());
                    info!(
                        members = object.spec.members.len(),
                        sandboxes = alive.len(),
                        "partition members restored from NodePartitions"
                    );
                    return self.state().restore(&object, &alive);
                }
                Err(error) => {
                    warn!(error = %error_chain(&error), "cannot read NodePartitions, retrying");
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

/// Lists the IDs of the containers that have a journal. Returns `None` if at least one journal cannot be
/// read.
fn journaled_containers(root: &Root) -> Option<BTreeSet<String>> {
    let found = Journal::list(root).ok()?;
    // An unreadable journal may belong to any container, so a single one makes the result `None`.
    found.into_iter().map(|found| found.journal.ok().map(|journal| journal.container)).collect()
}
