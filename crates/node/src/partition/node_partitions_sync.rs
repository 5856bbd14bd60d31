//! Writes the desired partition members and functions to this node's NodePartitions object, and watches the
//! object's status.

use super::node_partitions_state::NodePartitionsState;
use super::ports;
use crate::{FIELD_MANAGER, api_call::with_timeout};
use ferroband_api::ferroband::{NodePartitions, NodePartitionsSpec, Partition};
use ferroband_attach::journal::Journal;
use ferroband_daemon::{
    Controller, ControllerTiming, Retry, SharedCache, Trigger, apply, named, reflect, run_controller,
};
use ferroband_kernel::{Hardware, Root};
use kube::{Api, Client, runtime::watcher};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{info, warn};

/// How often the virtual functions are read from sysfs while no change is notified.
const RESYNC_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest and longest pause after a failed call of the API server. Pods that start wait meanwhile.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The desired content of this node's NodePartitions object, and caches of the API objects that it depends
/// on.
pub struct NodePartitionsSync {
    node: String,
    client: Client,
    state: Mutex<NodePartitionsState>,
    changed: Trigger,
    /// Watch cache that contains only this node's NodePartitions object.
    pub own_object: SharedCache<NodePartitions>,
    /// All Partition objects, which define the namespaces that may use each partition.
    pub partitions: SharedCache<Partition>,
}

impl NodePartitionsSync {
    pub fn new(client: Client, node: String) -> Self {
        Self {
            node,
            client,
            state: Mutex::default(),
            changed: Trigger::default(),
            own_object: Arc::default(),
            partitions: Arc::default(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, NodePartitionsState> {
        self.state.lock()
    }

    /// Wakes the writer ([`Self::run_writer`]). Called after a member was added or removed.
    pub fn notify_changed(&self) {
        self.changed.fire();
    }

    /// Returns this node's NodePartitions object from the watch cache, or `None` if it does not exist or the
    /// cache is not synced.
    pub fn current_object(&self) -> Option<Arc<NodePartitions>> {
        self.own_object.get("", &self.node)
    }

    /// Keeps the caches `own_object` and `partitions` in sync with the API server. Never returns.
    pub async fn run_watches(self: Arc<Self>) {
        let own = named(&self.node);
        let api = Api::all(self.client.clone());
        let own_watch = reflect("NodePartitions of this node", api, own, self.own_object.clone(), Some);
        let (api, all) = (Api::all(self.client.clone()), watcher::Config::default());
        let partition_watch = reflect("partitions", api, all, self.partitions.clone(), Some);
        tokio::join!(own_watch, partition_watch);
    }

    /// Restores the desired state from this node's NodePartitions object once. After that, writes the desired
    /// state to the object whenever the two differ. Never returns.
    pub async fn run_writer(self: Arc<Self>, hardware: Arc<dyn Hardware>, root: Root) {
        self.restore_state(&root).await;
        let trigger = self.changed.clone();
        run_controller(NodePartitionsWriter { sync: self, hardware, written: Mutex::default() }, trigger)
            .await;
    }

    /// Whether the cached NodePartitions object differs from `spec`, which was written earlier. If so, the
    /// object was changed or deleted externally, or the API server was restored from a backup.
    fn differs_from_object(&self, spec: &NodePartitionsSpec) -> bool {
        self.own_object.is_synced() && self.current_object().is_none_or(|object| object.spec != *spec)
    }

    /// Restores the members of existing sandboxes from the NodePartitions object. If the object were written
    /// before that, the memberships of running pods would be removed.
    async fn restore_state(&self, root: &Root) {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
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
                Err(e) => {
                    if let Some(error) = retry.news(&e) {
                        warn!(error, "cannot read NodePartitions, retrying");
                    }
                    retry.pause().await;
                }
            }
        }
    }

    async fn write(&self, spec: &NodePartitionsSpec) -> kube::Result<i64> {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let written = apply(&api, FIELD_MANAGER, &self.node, json!({"spec": spec})).await?;
        Ok(written.metadata.generation.unwrap_or_default())
    }
}

/// The controller that writes the desired state to the NodePartitions object.
struct NodePartitionsWriter {
    sync: Arc<NodePartitionsSync>,
    hardware: Arc<dyn Hardware>,
    /// The last spec that was written, and when.
    written: Mutex<Option<(NodePartitionsSpec, Instant)>>,
}

impl NodePartitionsWriter {
    /// Whether `spec` must be written: it is new, or the object differs from it. Right after a write, the cache may be
    /// stale, so the object is not compared.
    fn needs_write(&self, spec: &NodePartitionsSpec) -> bool {
        self.written.lock().as_ref().is_none_or(|(written, at)| {
            written != spec || (at.elapsed() >= RESYNC_INTERVAL && self.sync.differs_from_object(spec))
        })
    }
}

impl Controller for NodePartitionsWriter {
    const NAME: &'static str = "NodePartitions";
    const TIMING: ControllerTiming = ControllerTiming {
        // Several changes are written together, but starting pods wait for the write.
        debounce: Duration::from_millis(20),
        resync: RESYNC_INTERVAL,
        backoff: BACKOFF,
    };
    type Error = kube::Error;

    async fn reconcile(&self) -> kube::Result<Option<Duration>> {
        let hardware = self.hardware.clone();
        let functions = spawn_blocking(move || ports::list_function_guids(hardware.root())).await;
        if let Ok(Some(functions)) = functions {
            self.sync.state().update_functions(&functions);
        }
        let spec = self.sync.state().spec();
        if self.needs_write(&spec) {
            let generation = self.sync.write(&spec).await?;
            self.sync.state().record_written(&spec, generation);
            *self.written.lock() = Some((spec, Instant::now()));
        }
        Ok(None)
    }
}

/// Lists the IDs of the containers that have a journal. Returns `None` if at least one journal cannot be
/// read.
fn journaled_containers(root: &Root) -> Option<BTreeSet<String>> {
    let found = Journal::list(root).ok()?;
    // An unreadable journal may belong to any container, so a single one makes the result `None`.
    found.into_iter().map(|found| found.journal.ok().map(|journal| journal.container)).collect()
}
