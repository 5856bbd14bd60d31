//! Imports the addresses that Whereabouts and Spiderpool assigned into address blocks, and tells the nodes when that is
//! done. No node assigns an address before.
//!
//! ```text
//!  foreign record ── no entry yet ──▶ placeholder entry, at once: the address is withheld
//!  placeholder ── pod reports the address ──▶ entry with the pod's node
//!              └─ pod and sandbox are gone, or the record is ──▶ removed, with the record
//!  all records have entries ──▶ AddressState: import Complete
//!  record of another pod than the entry ──▶ the entry stays; condition NoConflictingRecords
//! ```

use super::{
    address_state::{AddressStateWriter, ImportReport},
    block_changes::{BlockChanges, EntryChange},
    caches::AddressCaches,
    foreign_pods::{ForeignPods, ImportDecision},
    foreign_records::{
        ForeignIpPool, ForeignRecord, ParsedRecords, RecordSlot, blocked_net, blocked_pool, is_placeholder,
        spiderpool_records, whereabouts_records,
    },
    import_memory::{ComparedRecord, ImportMemory, RECHECK_INTERVAL, RELEASE_GRACE_PERIOD},
    import_plan::{RecordState, record_key, record_state},
    sticky_pointers::add_pointer,
    upstream_lease::SpiderpoolLease,
    whereabouts_cleanup::remove_records,
};
use crate::{ControllerContext, Error};
use ferroband_address::{AddressAllocation, IpBlockId};
use ferroband_api::ferroband::ADDRESS_STATE_NAME;
use ferroband_daemon::{Controller, ControllerTiming};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tracing::info;

/// After a comparison of all records that took longer than this, the controller pauses for this multiple of the time.
const LONG_COMPARISON: Duration = Duration::from_millis(50);
const COMPARISON_PAUSE_FACTOR: u32 = 10;
/// How often to check Spiderpool's Lease, which is not watched.
const LEASE_INTERVAL: Duration = Duration::from_secs(10);
/// Records whose pods are read in one pass, and at the same time.
const MAX_DECISIONS: usize = 2000;
const MAX_CONCURRENT_READS: usize = 16;

/// Records of Spiderpool that are outdated, by pool and address. The projection removes them from the pool's status.
pub type OutdatedRecords = Arc<Mutex<HashSet<(String, IpAddr)>>>;

/// The controller that imports foreign records and publishes the import's state.
pub struct RecordImport {
    context: ControllerContext,
    caches: AddressCaches,
    pods: ForeignPods,
    lease: Arc<SpiderpoolLease>,
    state: AddressStateWriter,
    outdated: OutdatedRecords,
    memory: Mutex<ImportMemory>,
}

impl RecordImport {
    pub fn new(
        context: &ControllerContext,
        caches: AddressCaches,
        lease: Arc<SpiderpoolLease>,
        outdated: OutdatedRecords,
    ) -> Self {
        Self {
            context: context.clone(),
            pods: ForeignPods::new(context, caches.clone()),
            state: AddressStateWriter::new(context, caches.clone()),
            caches,
            lease,
            outdated,
            memory: Mutex::default(),
        }
    }

    fn entry(&self, slot: &RecordSlot) -> Option<AddressAllocation> {
        let (id, offset) = IpBlockId::containing(&slot.space, slot.address);
        self.caches.blocks.get("", &id.object_name())?.block.entries.get(&offset).cloned()
    }

    /// Reads the records of all foreign objects, and compares them with the blocks.
    fn compare(&self, report: &mut ImportReport) -> Vec<ComparedRecord> {
        let is_node = |name: &str| self.caches.nodes.get("", name).is_some();
        let mut objects: Vec<(String, ParsedRecords, Option<Arc<ForeignIpPool>>)> = Vec::new();
        for pool in self.caches.whereabouts_pools.cache.values() {
            objects.push((pool.describe(), whereabouts_records(&pool, is_node), Some(pool)));
        }
        for pool in self.caches.ip_pools.cache.values() {
            let read =
                spiderpool_records(&pool, |pod, uid, address| self.endpoint_interface(pod, uid, address));
            objects.push((
                format!("SpiderIPPool {}", pool.metadata.name.as_deref().unwrap_or_default()),
                read,
                None,
            ));
        }
        let mut memory = self.memory.lock();
        let mut compared = Vec::new();
        for (source, parsed, ip_pool) in objects {
            report.unreadable.extend(parsed.unreadable.iter().map(|blocked| blocked.reason.clone()));
            report.blocked.extend(parsed.unreadable.iter().cloned());
            let mut missing = 0;
            for record in parsed.records {
                let key = record_key(&record);
                let entry = self.entry(&record.slot);
                let state = record_state(&record, entry.as_ref(), memory.known.contains(&key));
                missing += usize::from(state == RecordState::Missing);
                if let (RecordState::Conflict, Some(entry), true) = (state, entry, record.primary) {
                    report.conflicts.push(format!(
                        "{source} records {} for pod {}, but pod {} has it",
                        record.slot.address, record.pod, entry.pod
                    ));
                }
                compared.push(ComparedRecord { record, key, state, ip_pool: ip_pool.clone() });
            }
            let system = if ip_pool.is_some() { &mut report.whereabouts } else { &mut report.spiderpool };
            system.missing += missing;
            report.blocked.extend(memory.hold_unreadable(&source, parsed.unreadable, missing));
        }
        compared
    }

    /// Returns the interface that has the address according to the SpiderEndpoint of the pod.
    fn endpoint_interface(&self, pod: &str, uid: &str, address: IpAddr) -> Option<String> {
        let (namespace, name) = pod.split_once('/')?;
        let endpoint = self.caches.endpoints.get(namespace, name)?;
        let current = &endpoint.status.as_ref()?.current;
        let written = |text: &Option<String>| {
            let text = text.as_deref().and_then(|text| text.split('/').next());
            text.and_then(|text| text.parse().ok()) == Some(address)
        };
        let ip = current.ips.iter().find(|ip| written(&ip.ipv4) || written(&ip.ipv6))?;
        (current.uid == uid).then(|| ip.interface.clone())
    }

    /// Blocks the ranges to which Whereabouts still adds records.
    fn block_active(&self, report: &mut ImportReport) {
        let memory = self.memory.lock();
        for pool in self.caches.whereabouts_pools.cache.values() {
            let source = pool.describe();
            if memory.active_until.contains_key(&source) {
                let reason = format!(
                    "Whereabouts still adds records to {source}; stop it on all nodes, then wait ten minutes"
                );
                let ranges = pool.ranges().into_iter();
                report.blocked.extend(ranges.map(|range| blocked_net(range, reason.clone())));
            }
        }
    }

    /// Removes placeholders whose record is gone: whoever assigned the address has released it.
    fn remove_orphans(&self, compared: &[ComparedRecord], changes: &mut BlockChanges) {
        let mut memory = self.memory.lock();
        if memory.without_placeholders && compared.is_empty() {
            return;
        }
        let container = |one: &ComparedRecord| (one.record.slot.clone(), one.key.2.clone());
        let recorded: HashSet<(RecordSlot, String)> = compared.iter().map(container).collect();
        memory.without_placeholders = true;
        for cached in self.caches.blocks.values() {
            for (offset, entry) in cached.block.entries.iter().filter(|(_, entry)| is_placeholder(entry)) {
                memory.without_placeholders = false;
                let slot =
                    RecordSlot { space: cached.block.space.clone(), address: cached.block.address(*offset) };
                let key = (slot, entry.container.clone());
                if !recorded.contains(&key) {
                    changes.add(&key.0, EntryChange::Remove { container: key.1 });
                }
            }
        }
    }

    /// Decides about records whose pod must be read. Returns the decisions by object and key of the record, and whether
    /// all due records are decided.
    async fn decide(
        &self,
        compared: &[ComparedRecord],
    ) -> (HashMap<(String, String), ImportDecision>, bool, Vec<Error>) {
        let due = self.memory.lock().take_due(compared, MAX_DECISIONS);
        let all = due.len() < MAX_DECISIONS;
        let decide = |one: &'_ ComparedRecord| {
            let record = one.record.clone();
            async move {
                let decision = self.pods.decide(&record).await;
                ((record.source, record.key), decision)
            }
        };
        let decisions: Vec<_> =
            stream::iter(due).map(decide).buffer_unordered(MAX_CONCURRENT_READS).collect().await;
        let (mut decided, mut failed) = (HashMap::new(), Vec::new());
        for (key, decision) in decisions {
            match decision {
                Ok(decision) => drop(decided.insert(key, decision)),
                Err(e) => failed.push(e),
            }
        }
        (decided, all, failed)
    }
}

impl Controller for RecordImport {
    const NAME: &'static str = "record import";
    const TIMING: ControllerTiming =
        ControllerTiming { debounce: Duration::from_millis(200), ..ControllerTiming::DEFAULT };
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let mut report = ImportReport::default();
        report.whereabouts.problem = self.caches.whereabouts_pools.problem();
        report.spiderpool.problem = self.caches.ip_pools.problem();
        let state = self.caches.address_states.get("", ADDRESS_STATE_NAME);
        let restore = state.as_ref().and_then(|state| state.spec.restore.as_ref());
        self.memory.lock().forget_after_restore(restore);
        let begin = Instant::now();
        let compared = self.compare(&mut report);
        self.memory.lock().update(&compared);
        self.block_active(&mut report);
        let comparing = begin.elapsed();
        let held = self.lease.holder().await?;
        if let Some(lease) = &held {
            let reason = format!(
                "Spiderpool's controller is running (Lease {lease}) and may assign the same addresses; remove Spiderpool"
            );
            for pool in self.caches.ip_pools.cache.values() {
                report.blocked.extend(blocked_pool(&pool, &reason));
            }
        }

        let mut changes = BlockChanges::default();
        for one in compared.iter().filter(|one| one.state == RecordState::Missing) {
            info!(address = %one.record.slot.address, space = %one.record.slot.space, pod = one.record.pod,
                record = one.record.source, "address of a foreign record withheld");
            changes.add(&one.record.slot, EntryChange::Insert(one.record.placeholder()));
        }
        let readable = report.unreadable.is_empty()
            && report.whereabouts.problem.is_none()
            && report.spiderpool.problem.is_none();
        if readable {
            self.remove_orphans(&compared, &mut changes);
        }
        let (decided, all_decided, mut failed) = self.decide(&compared).await;
        let mut outdated: Vec<&ComparedRecord> = Vec::new();
        let (mut undecided, mut releasing) = (false, false);
        for one in &compared {
            let decision = decided.get(&(one.record.source.clone(), one.record.key.clone()));
            let container = one.key.2.clone();
            match (one.state, decision) {
                (RecordState::Withheld, Some(ImportDecision::Import(entry))) => {
                    if entry.sticky && one.record.primary {
                        match add_pointer(&self.context.client, &one.record.slot, entry).await {
                            Ok(true) => {}
                            // Decided again in the next pass.
                            Ok(false) => {
                                undecided = true;
                                continue;
                            }
                            Err(e) => {
                                failed.push(e);
                                continue;
                            }
                        }
                    }
                    self.memory.lock().note_import();
                    info!(address = %one.record.slot.address, pod = entry.pod, node = entry.node,
                        "foreign address imported");
                    let change = EntryChange::Replace { container, entry: entry.clone() };
                    changes.add(&one.record.slot, change);
                }
                (RecordState::Withheld, Some(ImportDecision::Stale)) => {
                    changes.add(&one.record.slot, EntryChange::Remove { container });
                }
                (RecordState::Conflict, Some(ImportDecision::Stale)) | (RecordState::Superseded, _) => {
                    outdated.push(one);
                }
                (RecordState::Released, _) if self.memory.lock().is_released(&one.key) => outdated.push(one),
                (RecordState::Released, _) => releasing = true,
                (RecordState::Withheld | RecordState::Conflict, _) => undecided = true,
                _ => {}
            }
        }
        failed.extend(changes.write(&self.context, &self.caches).await);
        failed.extend(self.remove_outdated(&outdated).await);
        let status = state.as_ref().and_then(|state| state.status.as_ref());
        let was_importing = status.is_some_and(|status| status.importing);
        report.importing = self.memory.lock().is_importing(!compared.is_empty(), was_importing);
        self.state.write(report).await?;
        if let Some(first) = failed.into_iter().next() {
            return Err(first);
        }
        let next = match (all_decided, undecided) {
            (false, _) => Duration::from_secs(1),
            (true, true) => RECHECK_INTERVAL,
            (true, false) => LEASE_INTERVAL * 3,
        };
        // With very many records, comparing them after every change of a block would use a whole core.
        if comparing > LONG_COMPARISON {
            sleep(comparing * COMPARISON_PAUSE_FACTOR).await;
        }
        let next = if releasing { next.min(RELEASE_GRACE_PERIOD) } else { next };
        Ok(Some(if held.is_some() { next.min(LEASE_INTERVAL) } else { next }))
    }
}

impl RecordImport {
    /// Removes outdated records from Whereabouts' IPPools, and names those of Spiderpool to the projection.
    async fn remove_outdated(&self, outdated: &[&ComparedRecord]) -> Vec<Error> {
        let mut by_pool: BTreeMap<String, (Arc<ForeignIpPool>, Vec<ForeignRecord>)> = BTreeMap::new();
        let mut of_spiderpool = HashSet::new();
        for one in outdated {
            match &one.ip_pool {
                Some(pool) => by_pool
                    .entry(one.record.source.clone())
                    .or_insert_with(|| (pool.clone(), Vec::new()))
                    .1
                    .push(one.record.clone()),
                None => drop(of_spiderpool.insert((one.record.pool.clone(), one.record.slot.address))),
            }
        }
        *self.outdated.lock() = of_spiderpool;
        let mut failed = Vec::new();
        for (pool, records) in by_pool.into_values() {
            failed.extend(remove_records(&self.context, &pool, &records).await.err());
        }
        failed
    }
}

#[cfg(test)]
mod tests;
