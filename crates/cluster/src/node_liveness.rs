//! Which nodes are lost, so that nothing on them uses an address or a partition any more. The only source for all
//! controllers.
//!
//! ```text
//!  Node absent from the cache ──GET: 404──▶ held for 10 minutes ──GET: 404──▶ lost (deleted)
//!  Node has the taint node.kubernetes.io/out-of-service ──GET: tainted──────▶ lost (out of service), also if it is
//!                                                                             deleted afterwards
//! ```
//!
//! The cache may be outdated, and a Node object may be deleted by mistake or to register the node again while its pods
//! run. Time alone proves nothing: a node that is only unreachable is never lost.

use crate::{
    ControllerContext, Error,
    node_facts::{NodeFacts, NodeFencing},
    object_writes::{MAX_PARALLEL_WRITES, get_object},
};
use ferroband_daemon::{SharedCache, error_chain, tasks::TaskSet};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tracing::{info, warn};

/// How long the addresses and memberships of a deleted Node are held.
const DELETED_NODE_HOLD: Duration = Duration::from_secs(600);

/// Time until a Node that could not be read is read again.
const READ_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Why a node is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLoss {
    /// An administrator confirmed that the node is off.
    OutOfService,
    /// The Node object is deleted, and was not created again in time.
    Deleted,
}

/// What the last GET of a Node that is absent or tainted returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfirmedNode {
    OutOfService,
    /// Absent since this time. `lost` after the second GET, or if it had been out of service before.
    Absent {
        since: Instant,
        lost: bool,
    },
}

/// Nodes that are lost, and when to ask again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostNodes {
    pub nodes: BTreeMap<String, NodeLoss>,
    /// Time until the next node may count as lost. `None` if no node is being held.
    pub recheck: Option<Duration>,
}

/// Decides for all controllers which nodes are lost. All clones share their state.
#[derive(Clone)]
pub struct NodeLiveness {
    pub nodes: SharedCache<NodeFacts>,
    client: Client,
    confirmed: Arc<Mutex<BTreeMap<String, ConfirmedNode>>>,
}

impl NodeLiveness {
    /// Starts the watch of all Nodes. It runs until `tasks` ends.
    pub fn watch(context: &ControllerContext, tasks: &mut TaskSet<Error>) -> Self {
        Self::new(context.client.clone(), NodeFacts::watch(context, tasks))
    }

    pub(crate) fn new(client: Client, nodes: SharedCache<NodeFacts>) -> Self {
        Self { nodes, client, confirmed: Arc::default() }
    }

    /// Returns which of the nodes `names` are lost. Reads a Node from the API server only when its state in the cache
    /// changed, and once more at the end of its hold. A node that cannot be read is not lost. Before the cache is synced,
    /// no node is lost.
    pub async fn find_lost(&self, names: BTreeSet<String>) -> LostNodes {
        let mut lost = LostNodes::default();
        if !self.nodes.is_synced() {
            return lost;
        }
        let (suspects, unconfirmed) = self.list_suspects(names);
        let reads = stream::iter(unconfirmed).map(|name| self.confirm(name));
        let results: Vec<Result<(), Error>> = reads.buffer_unordered(MAX_PARALLEL_WRITES).collect().await;
        if let Some(error) = results.into_iter().find_map(Result::err) {
            warn!(error = %error_chain(&error), "cannot read all Nodes that seem to be lost, retrying");
            lost.recheck = Some(READ_RETRY_PAUSE);
        }
        let confirmed = self.confirmed.lock();
        for name in suspects {
            let loss = match confirmed.get(&name) {
                Some(ConfirmedNode::OutOfService) => NodeLoss::OutOfService,
                Some(ConfirmedNode::Absent { lost: true, .. }) => NodeLoss::Deleted,
                Some(ConfirmedNode::Absent { since, .. }) => {
                    let rest = DELETED_NODE_HOLD.saturating_sub(since.elapsed());
                    lost.recheck = Some(lost.recheck.map_or(rest, |other| other.min(rest)));
                    continue;
                }
                None => continue,
            };
            lost.nodes.insert(name, loss);
        }
        lost
    }

    /// Returns the nodes that are absent or out of service according to the cache, and those of them that must be read.
    fn list_suspects(&self, names: BTreeSet<String>) -> (Vec<String>, Vec<String>) {
        let suspects: Vec<String> = names.into_iter().filter(|name| self.is_suspect(name)).collect();
        let unconfirmed = suspects.iter().filter(|name| self.needs_confirmation(name)).cloned().collect();
        (suspects, unconfirmed)
    }

    /// Whether the node is absent or out of service according to the cache. Forgets what was known about one that is not.
    fn is_suspect(&self, name: &str) -> bool {
        let is_suspect =
            self.nodes.get("", name).is_none_or(|facts| facts.fencing == NodeFencing::OutOfService);
        if !is_suspect {
            self.confirmed.lock().remove(name);
        }
        is_suspect
    }

    fn needs_confirmation(&self, name: &str) -> bool {
        let is_cached = self.nodes.get("", name).is_some();
        match self.confirmed.lock().get(name) {
            Some(ConfirmedNode::OutOfService) => !is_cached,
            Some(ConfirmedNode::Absent { since, lost }) => {
                is_cached || (!lost && since.elapsed() >= DELETED_NODE_HOLD)
            }
            None => true,
        }
    }

    async fn confirm(&self, name: String) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let found = get_object(&api, &name).await?;
        let mut confirmed = self.confirmed.lock();
        let next = match (found.as_ref().map(NodeFencing::from_node), confirmed.get(&name)) {
            (Some(NodeFencing::NotFenced), _) => {
                confirmed.remove(&name);
                return Ok(());
            }
            (Some(NodeFencing::OutOfService), _) => ConfirmedNode::OutOfService,
            (None, Some(ConfirmedNode::OutOfService)) => {
                ConfirmedNode::Absent { since: Instant::now(), lost: true }
            }
            (None, Some(ConfirmedNode::Absent { since, lost })) => {
                ConfirmedNode::Absent { since: *since, lost: *lost || since.elapsed() >= DELETED_NODE_HOLD }
            }
            (None, None) => ConfirmedNode::Absent { since: Instant::now(), lost: false },
        };
        info!(node = name, state = ?next, "Node is deleted or out of service");
        confirmed.insert(name, next);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
