//! Taking back what is lost.

use super::{
    caches::{AddressCaches, CachedBlock},
    node_fencing::NodeFencing,
    reclaim::{ReclaimEvidence, ReclaimOutcome, reclaim_block},
    statefulset::StatefulSetOrdinals,
};
use crate::{Controller, ControllerContext, Error};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::{
    addresses::block_to_object,
    api_call::{ApiFailure, classify, with_timeout},
};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
    runtime::events::EventType,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::info;

/// How long a granule without entries is left alone: pods come back, and to make it again costs a write.
const EMPTY_BLOCK_GRACE_PERIOD: Duration = Duration::from_secs(60);
/// So many addresses of one granule have an event each: a node that goes with thousands must not flood the API server.
const MAX_EVENTS_PER_BLOCK: usize = 4;
/// How often what is only a matter of time is looked at.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The work.
pub struct AddressGc {
    context: ControllerContext,
    caches: AddressCaches,
    /// Since when a granule has been empty, in which version.
    empty_since: Mutex<BTreeMap<String, (String, Instant)>>,
}

/// What is known, the doubtful cases asked.
#[derive(Default)]
struct ConfirmedState {
    nodes: BTreeMap<String, Option<NodeFencing>>,
    stateful_sets: BTreeMap<(String, String), Option<StatefulSetOrdinals>>,
}

impl ReclaimEvidence for ConfirmedState {
    fn node(&self, name: &str) -> Option<NodeFencing> {
        // What was not asked is not doubted.
        self.nodes.get(name).copied().unwrap_or(Some(NodeFencing::NotFenced))
    }

    fn expects_pod(&self, namespace: &str, set: &str, ordinal: i64) -> bool {
        let known = self.stateful_sets.get(&(namespace.to_owned(), set.to_owned()));
        known.is_none_or(|set| set.is_some_and(|ordinals| ordinals.contains(ordinal)))
    }
}

impl AddressGc {
    /// Of these granules.
    pub fn new(context: &ControllerContext, books: AddressCaches) -> Self {
        Self { context: context.clone(), caches: books, empty_since: Mutex::default() }
    }

    /// Ask the API server about everything that the caches would take back: they may be behind.
    async fn confirm_with_api_server(&self, granules: &[CachedBlock]) -> Result<ConfirmedState, Error> {
        let mut asked = ConfirmedState::default();
        let entries = || granules.iter().flat_map(|seen| seen.block.entries.values());
        let holders = granules.iter().filter_map(|seen| seen.block.node.as_deref());
        for name in entries().map(|entry| entry.node.as_str()).chain(holders) {
            if asked.nodes.contains_key(name)
                || self.caches.nodes.get("", name).as_deref() == Some(&NodeFencing::NotFenced)
            {
                continue;
            }
            let api: Api<Node> = Api::all(self.context.client.clone());
            let found =
                with_timeout(api.get_opt(name)).await.map_err(Error::api("get", format!("Node {name}")))?;
            asked.nodes.insert(name.to_owned(), found.map(|node| NodeFencing::from_node(&node)));
        }
        for entry in entries().filter(|entry| entry.sticky) {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            let Some((set, ordinal)) = super::statefulset::split_pod_name(pod) else { continue };
            let known = self.caches.stateful_sets.get(namespace, set);
            if known.is_some_and(|ordinals| ordinals.contains(ordinal)) {
                continue;
            }
            let key = (namespace.to_owned(), set.to_owned());
            if let std::collections::btree_map::Entry::Vacant(unasked) = asked.stateful_sets.entry(key) {
                let api: Api<StatefulSet> = Api::namespaced(self.context.client.clone(), namespace);
                let what = format!("StatefulSet {namespace}/{set}");
                let found = with_timeout(api.get_opt(set)).await.map_err(Error::api("get", what))?;
                unasked.insert(found.map(|set| StatefulSetOrdinals::from_set(&set)));
            }
        }
        Ok(asked)
    }

    async fn write_block(&self, seen: &CachedBlock, taken: ReclaimOutcome) -> Result<(), Error> {
        let Some(left) = taken.updated_block else { return Ok(()) };
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        let (name, object) = (left.object_name(), block_to_object(&left, Some(&seen.version)));
        match with_timeout(api.replace(&name, &PostParams::default(), &object)).await {
            Ok(written) => {
                let mut notes = Vec::new();
                for (offset, entry, why) in taken.released {
                    let address = left.address(offset);
                    let why = why.describe(&entry);
                    info!(%address, pod = entry.pod, interface = entry.interface, why, "taken back");
                    notes.push(format!("{address} of {} ({}): {why}", entry.pod, entry.interface));
                }
                if notes.len() > MAX_EVENTS_PER_BLOCK {
                    let more = notes.len() - MAX_EVENTS_PER_BLOCK;
                    notes.truncate(MAX_EVENTS_PER_BLOCK);
                    notes.push(format!("and {more} more addresses of {name}; the log has them all"));
                }
                for note in notes {
                    self.context
                        .publish_event(&written, EventType::Normal, "IPAddressGarbageCollected", note)
                        .await;
                }
                Ok(())
            }
            // Somebody uses it: the next pass sees how.
            Err(e) if matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => Ok(()),
            Err(e) => Err(Error::api("replace", format!("AddressBlock {name}"))(e)),
        }
    }

    /// Remove granules that have been empty for a while, so that what is listed is what is used.
    async fn delete_empty_blocks(&self, granules: &[CachedBlock]) -> Result<bool, Error> {
        let now = Instant::now();
        let mut due = Vec::new();
        {
            let mut empty = self.empty_since.lock().unwrap_or_else(PoisonError::into_inner);
            let mut still = BTreeMap::new();
            for seen in granules.iter().filter(|seen| seen.block.entries.is_empty()) {
                let name = seen.block.object_name();
                let known = empty.get(&name).filter(|(version, _)| *version == seen.version.0);
                let since = known.map_or(now, |(_, since)| *since);
                if now.duration_since(since) >= EMPTY_BLOCK_GRACE_PERIOD {
                    due.push(seen.clone());
                } else {
                    still.insert(name, (seen.version.0.clone(), since));
                }
            }
            *empty = still;
        }
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        for seen in due {
            let name = seen.block.object_name();
            // Exactly this state: whoever assigns from it meanwhile wins.
            let preconditions = Preconditions {
                resource_version: Some(seen.version.0.clone()),
                uid: Some(seen.uid.clone()).filter(|uid| !uid.is_empty()),
            };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match with_timeout(api.delete(&name, &parameters)).await {
                Ok(_) => info!(granule = name, "empty; removed"),
                Err(e) if matches!(classify(&e), ApiFailure::Conflict | ApiFailure::NotFound) => {}
                Err(e) => return Err(Error::api("delete", format!("AddressBlock {name}"))(e)),
            }
        }
        Ok(granules.iter().any(|seen| seen.block.entries.is_empty()))
    }
}

impl Controller for AddressGc {
    const NAME: &'static str = "collecting addresses";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let AddressCaches { blocks: granules, nodes, stateful_sets: sets, .. } = &self.caches;
        if !(granules.is_synced() && nodes.is_synced() && sets.is_synced()) {
            return Ok(Some(RECHECK_INTERVAL));
        }
        let granules: Vec<CachedBlock> =
            granules.list().into_iter().map(|(_, seen)| (*seen).clone()).collect();
        let asked = self.confirm_with_api_server(&granules).await?;
        for seen in &granules {
            self.write_block(seen, reclaim_block(&seen.block, &asked)).await?;
        }
        let again = self.delete_empty_blocks(&granules).await?;
        Ok(again.then_some(RECHECK_INTERVAL))
    }
}
