//! Taking back what is lost.

use super::{
    books::{Books, Seen},
    evidence::{Taken, Witness, take_back},
    fence::Fence,
    stateful::Ordinals,
};
use crate::{Context, Error, Work};
use ferroband_api::ferroband::AddressGranule;
use ferroband_daemon::{
    addresses::object_of,
    call::{Failure, bounded, failure},
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
const EMPTY: Duration = Duration::from_secs(60);
/// So many addresses of one granule have an event each: a node that goes with thousands must not flood the API server.
const FEW: usize = 4;
/// How often what is only a matter of time is looked at.
const AGAIN: Duration = Duration::from_secs(20);

/// The work.
pub struct Collect {
    context: Context,
    books: Books,
    /// Since when a granule has been empty, in which version.
    empty: Mutex<BTreeMap<String, (String, Instant)>>,
}

/// What is known, the doubtful cases asked.
#[derive(Default)]
struct Asked {
    nodes: BTreeMap<String, Option<Fence>>,
    sets: BTreeMap<(String, String), Option<Ordinals>>,
}

impl Witness for Asked {
    fn node(&self, name: &str) -> Option<Fence> {
        // What was not asked is not doubted.
        self.nodes.get(name).copied().unwrap_or(Some(Fence::Open))
    }

    fn awaited(&self, namespace: &str, set: &str, ordinal: i64) -> bool {
        let known = self.sets.get(&(namespace.to_owned(), set.to_owned()));
        known.is_none_or(|set| set.is_some_and(|ordinals| ordinals.contains(ordinal)))
    }
}

impl Collect {
    /// Of these granules.
    pub fn new(context: &Context, books: Books) -> Self {
        Self { context: context.clone(), books, empty: Mutex::default() }
    }

    /// Ask the API server about everything that the caches would take back: they may be behind.
    async fn ask(&self, granules: &[Seen]) -> Result<Asked, Error> {
        let mut asked = Asked::default();
        let entries = || granules.iter().flat_map(|seen| seen.granule.entries.values());
        let holders = granules.iter().filter_map(|seen| seen.granule.node.as_deref());
        for name in entries().map(|entry| entry.node.as_str()).chain(holders) {
            if asked.nodes.contains_key(name)
                || self.books.nodes.get("", name).as_deref() == Some(&Fence::Open)
            {
                continue;
            }
            let api: Api<Node> = Api::all(self.context.client.clone());
            let found =
                bounded(api.get_opt(name)).await.map_err(Error::api("get", format!("Node {name}")))?;
            asked.nodes.insert(name.to_owned(), found.map(|node| Fence::of(&node)));
        }
        for entry in entries().filter(|entry| entry.sticky) {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            let Some((set, ordinal)) = super::stateful::set_and_ordinal(pod) else { continue };
            let known = self.books.sets.get(namespace, set);
            if known.is_some_and(|ordinals| ordinals.contains(ordinal)) {
                continue;
            }
            let key = (namespace.to_owned(), set.to_owned());
            if let std::collections::btree_map::Entry::Vacant(unasked) = asked.sets.entry(key) {
                let api: Api<StatefulSet> = Api::namespaced(self.context.client.clone(), namespace);
                let what = format!("StatefulSet {namespace}/{set}");
                let found = bounded(api.get_opt(set)).await.map_err(Error::api("get", what))?;
                unasked.insert(found.map(|set| Ordinals::of(&set)));
            }
        }
        Ok(asked)
    }

    async fn write(&self, seen: &Seen, taken: Taken) -> Result<(), Error> {
        let Some(left) = taken.left else { return Ok(()) };
        let api: Api<AddressGranule> = Api::all(self.context.client.clone());
        let (name, object) = (left.object_name(), object_of(&left, Some(&seen.version)));
        match bounded(api.replace(&name, &PostParams::default(), &object)).await {
            Ok(written) => {
                let mut notes = Vec::new();
                for (offset, entry, why) in taken.freed {
                    let address = left.address(offset);
                    let why = why.told(&entry);
                    info!(%address, pod = entry.pod, interface = entry.interface, why, "taken back");
                    notes.push(format!("{address} of {} ({}): {why}", entry.pod, entry.interface));
                }
                if notes.len() > FEW {
                    let more = notes.len() - FEW;
                    notes.truncate(FEW);
                    notes.push(format!("and {more} more addresses of {name}; the log has them all"));
                }
                for note in notes {
                    self.context.event(&written, EventType::Normal, "IPAddressGarbageCollected", note).await;
                }
                Ok(())
            }
            // Somebody uses it: the next pass sees how.
            Err(e) if matches!(failure(&e), Failure::Conflict | Failure::NotFound) => Ok(()),
            Err(e) => Err(Error::api("replace", format!("AddressGranule {name}"))(e)),
        }
    }

    /// Remove granules that have been empty for a while, so that what is listed is what is used.
    async fn remove_empty(&self, granules: &[Seen]) -> Result<bool, Error> {
        let now = Instant::now();
        let mut due = Vec::new();
        {
            let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
            let mut still = BTreeMap::new();
            for seen in granules.iter().filter(|seen| seen.granule.entries.is_empty()) {
                let name = seen.granule.object_name();
                let known = empty.get(&name).filter(|(version, _)| *version == seen.version.0);
                let since = known.map_or(now, |(_, since)| *since);
                if now.duration_since(since) >= EMPTY {
                    due.push(seen.clone());
                } else {
                    still.insert(name, (seen.version.0.clone(), since));
                }
            }
            *empty = still;
        }
        let api: Api<AddressGranule> = Api::all(self.context.client.clone());
        for seen in due {
            let name = seen.granule.object_name();
            // Exactly this state: whoever assigns from it meanwhile wins.
            let preconditions = Preconditions {
                resource_version: Some(seen.version.0.clone()),
                uid: Some(seen.uid.clone()).filter(|uid| !uid.is_empty()),
            };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match bounded(api.delete(&name, &parameters)).await {
                Ok(_) => info!(granule = name, "empty; removed"),
                Err(e) if matches!(failure(&e), Failure::Conflict | Failure::NotFound) => {}
                Err(e) => return Err(Error::api("delete", format!("AddressGranule {name}"))(e)),
            }
        }
        Ok(granules.iter().any(|seen| seen.granule.entries.is_empty()))
    }
}

impl Work for Collect {
    const NAME: &'static str = "collecting addresses";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        let Books { granules, nodes, sets, .. } = &self.books;
        if !(granules.is_complete() && nodes.is_complete() && sets.is_complete()) {
            return Ok(Some(AGAIN));
        }
        let granules: Vec<Seen> = granules.all().into_iter().map(|(_, seen)| (*seen).clone()).collect();
        let asked = self.ask(&granules).await?;
        for seen in &granules {
            self.write(seen, take_back(&seen.granule, &asked)).await?;
        }
        let again = self.remove_empty(&granules).await?;
        Ok(again.then_some(AGAIN))
    }
}
