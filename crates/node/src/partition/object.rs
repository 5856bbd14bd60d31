//! The node's object: written from the book, and heard of.

use super::book::Book;
use super::ports;
use crate::call::bounded;
use crate::error::chain;
use ferroband_api::ferroband::{NodePartitions, NodePartitionsSpec, Partition};
use ferroband_attach::journal::Journal;
use ferroband_daemon::watching::{Cache, follow, map};
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
const GATHER: Duration = Duration::from_millis(20);
/// How often the functions are looked at anew.
const LOOK: Duration = Duration::from_secs(5);
/// Pauses after a failed write.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// The book and its object.
pub struct Object {
    node: String,
    client: Client,
    book: Mutex<Book>,
    changed: Notify,
    /// This node's object, as the API server has it.
    pub own: Arc<Cache<NodePartitions>>,
    /// Who may use which partition.
    pub rules: Arc<Cache<Partition>>,
}

impl Object {
    /// Of this node.
    pub fn new(client: Client, node: String) -> Self {
        Self {
            node,
            client,
            book: Mutex::default(),
            changed: Notify::new(),
            own: Arc::default(),
            rules: Arc::default(),
        }
    }

    /// The book, for a moment.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was entered or struck out.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// This node's object now.
    pub fn seen(&self) -> Option<Arc<NodePartitions>> {
        self.own.get("", &self.node)
    }

    /// Watch what is needed, for ever.
    pub async fn watch(self: Arc<Self>) {
        let own = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let (kept, rules) = (self.own.clone(), self.rules.clone());
        let named = |name: String| (String::new(), name);
        let mine = follow(
            "this node's partitions",
            Api::<NodePartitions>::all(self.client.clone()),
            own,
            move |event| {
                kept.apply(map(event, |object| (named(object.name_any()), Some(object))));
            },
        );
        let all = follow(
            "partitions",
            Api::<Partition>::all(self.client.clone()),
            watcher::Config::default(),
            move |event| {
                rules.apply(map(event, |object: Partition| (named(object.name_any()), Some(object))));
            },
        );
        tokio::join!(mine, all);
    }

    /// Keep the object as the book says, for ever.
    pub async fn keep(self: Arc<Self>, hardware: Arc<dyn Hardware>, root: Root) {
        self.load(&root).await;
        let mut told: Option<NodePartitionsSpec> = None;
        let mut pause = SHORTEST;
        let mut quiet = false;
        loop {
            let look = hardware.clone();
            if let Ok(Some(seen)) = spawn_blocking(move || ports::functions(look.root())).await {
                self.book().see(&seen);
            }
            let spec = self.book().spec();
            if told.as_ref() != Some(&spec) || (quiet && self.is_other(&spec)) {
                match self.write(&spec).await {
                    Ok(generation) => {
                        self.book().wrote(&spec, generation);
                        (told, pause) = (Some(spec), SHORTEST);
                    }
                    Err(error) => {
                        warn!(error = %chain(&error), "this node's partitions are not written; trying again");
                        sleep(pause).await;
                        pause = (pause * 2).min(LONGEST);
                        continue;
                    }
                }
            }
            quiet = timeout(LOOK, self.changed.notified()).await.is_err();
            if !quiet {
                sleep(GATHER).await;
            }
        }
    }

    /// Whether the object says something else than what was written: somebody else wrote it or removed it, or the API
    /// server was restored from a backup. To be asked when nothing has been written for a while.
    fn is_other(&self, spec: &NodePartitionsSpec) -> bool {
        self.own.is_complete() && self.seen().is_none_or(|object| object.spec != *spec)
    }

    /// Take over what an earlier daemon wrote, as far as its sandboxes live. Not before this is known may anything be
    /// written: it would end memberships of running pods.
    async fn load(&self, root: &Root) {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        loop {
            let found = bounded(api.get_opt(&self.node)).await;
            match found {
                Ok(None) => return,
                Ok(Some(object)) => {
                    let at = root.clone();
                    let alive = spawn_blocking(move || containers(&at)).await.ok().flatten();
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
                    return self.book().load(&object, &alive);
                }
                Err(error) => {
                    warn!(error = %chain(&error), "this node's partitions are not to be had; trying again");
                    sleep(LONGEST).await;
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
        let written = bounded(api.patch(&self.node, &params, &Patch::Apply(&object))).await?;
        Ok(written.metadata.generation.unwrap_or_default())
    }
}

/// The sandboxes that have a journal.
fn containers(root: &Root) -> Option<BTreeSet<String>> {
    let found = Journal::all(root).ok()?;
    // One that cannot be read may be anybody's.
    found.into_iter().map(|found| found.journal.ok().map(|journal| journal.container)).collect()
}
