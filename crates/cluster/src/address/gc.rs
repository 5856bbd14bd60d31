//! Reclaims leaked addresses and deletes empty AddressBlocks.

use super::{
    caches::{AddressCaches, CachedBlock},
    reclaim::{ConfirmedState, ReclaimOutcome, ReclaimReason, reclaim_block},
    statefulset::StatefulSetOrdinals,
    sticky_pointers::delete_pointers,
};
use crate::{
    ControllerContext, Error,
    node_liveness::NodeLiveness,
    object_writes::{collect_errors, get_object, unless_outdated},
};
use ferroband_api::ferroband::AddressBlock;
use ferroband_daemon::{Controller, ControllerTiming, addresses::block_to_object, api_call::with_timeout};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
    runtime::events::EventType,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tracing::info;

/// How long an empty AddressBlock is kept before it is deleted. New pods often need it soon, and creating it
/// again costs a write.
const EMPTY_BLOCK_GRACE_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of events about one AddressBlock in one pass of the controller. A lost node may have had
/// thousands of addresses, which must not flood the API server with events.
const MAX_EVENTS_PER_BLOCK: usize = 4;
/// Blocks that are written or deleted at the same time.
const MAX_CONCURRENT_WRITES: usize = 16;
/// How often to check again while an empty AddressBlock waits for the end of its grace period, or the caches
/// are not synced.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The controller that reclaims leaked addresses and deletes empty AddressBlocks.
pub struct AddressGc {
    context: ControllerContext,
    caches: AddressCaches,
    liveness: NodeLiveness,
    /// For each empty AddressBlock, by name: its resourceVersion, and when this version was first observed to
    /// be empty.
    empty_since: Mutex<BTreeMap<String, (String, Instant)>>,
}

impl AddressGc {
    pub fn new(context: &ControllerContext, caches: AddressCaches, liveness: NodeLiveness) -> Self {
        Self { context: context.clone(), caches, liveness, empty_since: Mutex::default() }
    }

    /// Finds lost nodes, and reads from the API server every StatefulSet that is lost according to the cache. The cache
    /// may be outdated, and an address must not be reclaimed while its pod is running.
    async fn confirm_with_api_server(&self, blocks: &[Arc<CachedBlock>]) -> Result<ConfirmedState, Error> {
        let mut confirmed = ConfirmedState::default();
        let entries = || blocks.iter().flat_map(|cached| cached.block.entries.values());
        let holders = blocks.iter().filter_map(|cached| cached.block.node.as_deref());
        let names: BTreeSet<&str> = entries().map(|entry| entry.node.as_str()).chain(holders).collect();
        // An entry without a node withholds the address of a foreign record. The import removes it.
        let names = names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let lost = self.liveness.find_lost(names).await;
        (confirmed.lost_nodes, confirmed.recheck) = (lost.nodes, lost.recheck);
        for entry in entries().filter(|entry| entry.sticky) {
            let (namespace, pod) = entry.pod.split_once('/').unwrap_or(("", &entry.pod));
            let Some((set, ordinal)) = super::statefulset::split_pod_name(pod) else { continue };
            let known = self.caches.stateful_sets.get(namespace, set);
            if known.is_some_and(|ordinals| ordinals.contains(ordinal)) {
                continue;
            }
            let key = (namespace.to_owned(), set.to_owned());
            if let Entry::Vacant(vacant) = confirmed.stateful_sets.entry(key) {
                let api: Api<StatefulSet> = Api::namespaced(self.context.client.clone(), namespace);
                let found = get_object(&api, set).await?;
                vacant.insert(found.map(|set| StatefulSetOrdinals::from_set(&set)));
            }
            if !confirmed.expects_pod(namespace, set, ordinal) {
                let api: Api<Pod> = Api::namespaced(self.context.client.clone(), namespace);
                let found = with_timeout(api.get_metadata_opt(pod)).await;
                if found.map_err(Error::api("get", format!("pod {}", entry.pod)))?.is_some() {
                    confirmed.remaining_pods.insert(entry.pod.clone());
                }
            }
        }
        Ok(confirmed)
    }

    async fn write_block(&self, cached: &CachedBlock, outcome: ReclaimOutcome) -> Result<(), Error> {
        let Some(updated) = outcome.updated_block else { return Ok(()) };
        // The pointers go first: after a failure the entries are still there, and the next pass tries again.
        let freed = outcome.released.iter().filter(|(_, _, reason)| *reason == ReclaimReason::PodNotExpected);
        for pod in freed.map(|(_, entry, _)| entry.pod.as_str()).collect::<BTreeSet<_>>() {
            delete_pointers(&self.context.client, pod).await?;
        }
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        let (name, object) = (updated.object_name(), block_to_object(&updated, Some(&cached.version)));
        let written = with_timeout(api.replace(&name, &PostParams::default(), &object)).await;
        let written = unless_outdated(written, "replace", format!("AddressBlock {name}"))?;
        let Some(written) = written else { return Ok(()) };
        let mut notes = Vec::new();
        for (offset, entry, reason) in outcome.released {
            let address = updated.address(offset);
            let reason = reason.describe(&entry);
            info!(%address, pod = entry.pod, interface = entry.interface, reason, "address reclaimed");
            notes.push(format!("{address} of {} ({}): {reason}", entry.pod, entry.interface));
        }
        if notes.len() > MAX_EVENTS_PER_BLOCK {
            let more = notes.len() - MAX_EVENTS_PER_BLOCK;
            notes.truncate(MAX_EVENTS_PER_BLOCK);
            notes.push(format!(
                "{more} more addresses of AddressBlock {name} reclaimed; see the log of ferroband-cluster"
            ));
        }
        for note in notes {
            let events = &self.context.events;
            events.publish(&written, EventType::Normal, "IPAddressGarbageCollected", note).await;
        }
        Ok(())
    }

    /// Deletes AddressBlocks that have been empty for the grace period. Returns whether at least one block is
    /// empty.
    async fn delete_empty_blocks(&self, blocks: &[Arc<CachedBlock>]) -> Result<bool, Error> {
        let now = Instant::now();
        let mut due = Vec::new();
        {
            let mut empty = self.empty_since.lock();
            let mut still_empty = BTreeMap::new();
            for cached in blocks.iter().filter(|cached| cached.block.entries.is_empty()) {
                let name = cached.block.object_name();
                let known = empty.get(&name).filter(|(version, _)| *version == cached.version.0);
                let since = known.map_or(now, |(_, since)| *since);
                if now.duration_since(since) >= EMPTY_BLOCK_GRACE_PERIOD {
                    due.push(cached.clone());
                } else {
                    still_empty.insert(name, (cached.version.0.clone(), since));
                }
            }
            *empty = still_empty;
        }
        let deletions: Vec<_> = due.iter().map(|cached| self.delete_empty(cached)).collect();
        let failed = collect_errors(MAX_CONCURRENT_WRITES, deletions).await;
        if let Some(first) = failed.into_iter().next() {
            return Err(first);
        }
        Ok(blocks.iter().any(|cached| cached.block.entries.is_empty()))
    }
}

impl AddressGc {
    /// Deletes a block unless it was changed. If an address was allocated from it since it was read, or it was deleted
    /// and created again, the deletion fails.
    async fn delete_empty(&self, cached: &CachedBlock) -> Result<(), Error> {
        let api: Api<AddressBlock> = Api::all(self.context.client.clone());
        let name = cached.block.object_name();
        let preconditions = Preconditions {
            resource_version: Some(cached.version.0.clone()),
            uid: Some(cached.uid.clone()).filter(|uid| !uid.is_empty()),
        };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = with_timeout(api.delete(&name, &parameters)).await;
        if unless_outdated(deleted, "delete", format!("AddressBlock {name}"))?.is_some() {
            info!(block = name, "empty block deleted");
        }
        Ok(())
    }
}

impl Controller for AddressGc {
    const NAME: &'static str = "address GC";
    // A pass reads every entry of the cluster, and no pod waits for it.
    const TIMING: ControllerTiming =
        ControllerTiming { debounce: Duration::from_secs(1), ..ControllerTiming::DEFAULT };
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let blocks = self.caches.blocks.values();
        let confirmed = self.confirm_with_api_server(&blocks).await?;
        let reclaimed = blocks.iter().map(|cached| (cached, reclaim_block(&cached.block, &confirmed)));
        let changed = reclaimed.filter(|(_, outcome)| outcome.updated_block.is_some());
        let writes: Vec<_> = changed.map(|(cached, outcome)| self.write_block(cached, outcome)).collect();
        let failed = collect_errors(MAX_CONCURRENT_WRITES, writes).await;
        let any_empty = self.delete_empty_blocks(&blocks).await?;
        if let Some(first) = failed.into_iter().next() {
            return Err(first);
        }
        // Pods are not watched here, so check again whether these still exist.
        let recheck = any_empty || !confirmed.remaining_pods.is_empty();
        Ok(recheck.then_some(RECHECK_INTERVAL).into_iter().chain(confirmed.recheck).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::{AddressAllocation, IpBlock, IpBlockId, IpSpace};

    // Case: ipam A24
    #[test]
    fn address_of_a_deleted_statefulset_is_kept_until_its_pod_is_gone() {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let mut block = IpBlock::new(id, None);
        for ordinal in [0, 1] {
            // Without a sandbox: the address is reserved for the pod.
            let entry = AddressAllocation {
                pod: format!("ns/db-{ordinal}"),
                uid: "u".into(),
                sticky: true,
                interface: "net1".into(),
                ordinal: 0,
                container: String::new(),
                node: "n".into(),
                pool: String::new(),
            };
            block.entries.insert(ordinal, entry);
        }
        let mut confirmed = ConfirmedState::default();
        confirmed.stateful_sets.insert(("ns".into(), "db".into()), None);
        confirmed.remaining_pods.insert("ns/db-0".into());
        let kept = |confirmed: &ConfirmedState| -> Vec<u8> {
            let updated = reclaim_block(&block, confirmed).updated_block.unwrap();
            updated.entries.into_keys().collect()
        };
        assert_eq!(kept(&confirmed), [0]);
        confirmed.remaining_pods.clear();
        assert_eq!(kept(&confirmed), Vec::<u8>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_block_is_deleted_after_a_minute_if_it_is_unchanged() {
        use crate::ClusterSettings;
        use ferroband_address::ResourceVersion;
        use ferroband_testbed::fake_api::FakeApi;
        use kube::runtime::watcher::Event;
        let (api, caches) = (FakeApi::default(), AddressCaches::for_test());
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        let liveness = NodeLiveness::new(api.client(), caches.nodes.clone());
        let gc = AddressGc::new(&context, caches.clone(), liveness);
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let name = id.object_name();
        let path = format!("/apis/ferroband.io/v1alpha1/addressblocks/{name}");
        let cached = |version: &str| CachedBlock {
            block: IpBlock::new(id.clone(), Some("n".into())),
            version: ResourceVersion(version.into()),
            uid: "u".into(),
        };
        let put = |version: &str| {
            caches.blocks.apply(Event::Apply(((String::new(), name.clone()), Some(cached(version)))));
        };
        put("1");
        let blocks = |gc: &AddressGc| gc.caches.blocks.values();
        assert!(gc.delete_empty_blocks(&blocks(&gc)).await.unwrap());
        tokio::time::advance(Duration::from_secs(50)).await;
        put("2");
        gc.delete_empty_blocks(&blocks(&gc)).await.unwrap();
        tokio::time::advance(Duration::from_secs(50)).await;
        gc.delete_empty_blocks(&blocks(&gc)).await.unwrap();
        assert_eq!(api.list_calls(), Vec::<String>::new(), "it was written meanwhile");
        tokio::time::advance(Duration::from_secs(20)).await;
        gc.delete_empty_blocks(&blocks(&gc)).await.unwrap();
        let sent = api.last_body("DELETE", &path);
        assert_eq!(sent["preconditions"], serde_json::json!({"resourceVersion": "2", "uid": "u"}));
    }
}
