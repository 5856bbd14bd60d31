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
    import_plan::{RecordKey, RecordState, record_key, record_state},
    sticky_pointers::add_pointer,
    upstream_lease::SpiderpoolLease,
    whereabouts_cleanup::remove_records,
};
use crate::{ControllerContext, Error};
use ferroband_address::{AddressAllocation, IpBlockId};
use ferroband_api::ferroband::{ADDRESS_STATE_NAME, BlockedAddressRange, RestorePhase};
use ferroband_daemon::{Controller, ControllerTiming};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tracing::info;

/// How often to recheck a record for which it is not known yet whether a pod has the address.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);
/// After a comparison of all records that took longer than this, the controller pauses for this multiple of the time.
const LONG_COMPARISON: Duration = Duration::from_millis(50);
const COMPARISON_PAUSE_FACTOR: u32 = 10;
/// How long nodes look for imported entries after the last one was written. Within this time every node lists its blocks
/// anyway.
const IMPORTING_PERIOD: Duration = Duration::from_secs(3600);
/// How long the entry of a record must be gone before the record is outdated. If a restore of etcd lost the entry, that is
/// known by then.
const RELEASE_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// How often to check Spiderpool's Lease, which is not watched.
const LEASE_INTERVAL: Duration = Duration::from_secs(10);
/// Records whose pods are read in one pass, and at the same time.
const MAX_DECISIONS: usize = 2000;
const MAX_CONCURRENT_READS: usize = 16;
/// How long a range is blocked after Whereabouts was observed to add a record to it.
const UPSTREAM_ACTIVE_PERIOD: Duration = Duration::from_secs(600);
/// A new record is Whereabouts' own if Whereabouts wrote the IPPool this recently.
const RECENT_WRITE_SECONDS: i64 = 60;

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

/// What the controller remembers between passes. A new leader starts without it, and decides again.
#[derive(Default)]
struct ImportMemory {
    /// Records that had an entry. When the entry is gone, its node has reported that the sandbox is gone.
    known: HashSet<RecordKey>,
    /// When the entry of a known record was first found to be gone.
    released_since: HashMap<RecordKey, Instant>,
    /// Last restore of etcd. It may have lost entries, so that nothing is known about records since.
    epoch: String,
    /// All records of the last pass; `None` before the first.
    seen: Option<HashSet<RecordKey>>,
    /// When the pod of a record was last read.
    checked: HashMap<RecordKey, Instant>,
    /// Ranges that were unreadable, by object. They stay blocked until all records of the object are imported.
    unreadable: HashMap<String, Vec<BlockedAddressRange>>,
    /// Until when the ranges of an IPPool are blocked, because Whereabouts still adds records to it.
    active_until: HashMap<String, Instant>,
    /// Until when nodes look for imported entries.
    importing_until: Option<Instant>,
    /// Whether the blocks have placeholders.
    has_placeholders: bool,
}

/// A record, the state of its entry, and the IPPool that it is in.
struct ComparedRecord {
    record: ForeignRecord,
    key: RecordKey,
    state: RecordState,
    ip_pool: Option<Arc<ForeignIpPool>>,
}

impl RecordImport {
    pub fn new(
        context: &ControllerContext,
        caches: AddressCaches,
        lease: Arc<SpiderpoolLease>,
        outdated: OutdatedRecords,
    ) -> Self {
        let memory = ImportMemory { has_placeholders: true, ..ImportMemory::default() };
        Self {
            context: context.clone(),
            pods: ForeignPods::new(context, caches.clone()),
            state: AddressStateWriter::new(context, caches.clone()),
            caches,
            lease,
            outdated,
            memory: Mutex::new(memory),
        }
    }

    fn entry(&self, slot: &RecordSlot) -> Option<AddressAllocation> {
        let (id, offset) = IpBlockId::containing(&slot.space, slot.address);
        self.caches.blocks.get("", &id.object_name())?.block.entries.get(&offset).cloned()
    }

    /// Forgets which records had entries if etcd was restored: an entry may be gone although its sandbox runs.
    fn forget_after_restore(&self) {
        let state = self.caches.address_states.get("", ADDRESS_STATE_NAME);
        let restore = state.as_ref().and_then(|state| state.spec.restore.as_ref());
        let asserting = restore.is_some_and(|restore| restore.phase == RestorePhase::Asserting);
        let epoch = restore.map(|restore| restore.epoch.clone()).unwrap_or_default();
        let mut memory = self.memory.lock();
        if asserting || memory.epoch != epoch {
            memory.known.clear();
            memory.released_since.clear();
            memory.epoch = epoch;
        }
    }

    /// Whether the entry of a record that is [`RecordState::Released`] has been gone for the grace period.
    fn is_released(&self, key: &RecordKey) -> bool {
        let mut memory = self.memory.lock();
        let since = *memory.released_since.entry(key.clone()).or_insert_with(Instant::now);
        since.elapsed() >= RELEASE_GRACE_PERIOD
    }

    /// Notes that an entry of a node was written. The node does not know it yet.
    fn note_import(&self) {
        self.memory.lock().importing_until = Some(Instant::now() + IMPORTING_PERIOD);
    }

    /// Whether nodes must look for entries that were imported for them. A new leader does not know when the last one was
    /// written, and continues what the AddressState says.
    fn is_importing(&self, compared: &[ComparedRecord]) -> bool {
        let state = self.caches.address_states.get("", ADDRESS_STATE_NAME);
        let was =
            state.as_ref().and_then(|state| state.status.as_ref()).is_some_and(|status| status.importing);
        let mut memory = self.memory.lock();
        let until = memory.importing_until;
        if until.is_none() && was {
            memory.importing_until = Some(Instant::now() + IMPORTING_PERIOD);
            return true;
        }
        !compared.is_empty() || until.is_some_and(|until| until > Instant::now())
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
            match memory.unreadable.remove(&source) {
                // The object was corrected, and its records are about to be imported.
                Some(before) if parsed.unreadable.is_empty() && missing > 0 => {
                    report.blocked.extend(before.iter().cloned());
                    memory.unreadable.insert(source, before);
                }
                _ if !parsed.unreadable.is_empty() => {
                    drop(memory.unreadable.insert(source, parsed.unreadable))
                }
                _ => {}
            }
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

    /// Updates what the controller remembers, and blocks ranges to which Whereabouts still adds records.
    fn remember(&self, compared: &[ComparedRecord], report: &mut ImportReport) {
        let mut memory = self.memory.lock();
        let all: HashSet<RecordKey> = compared.iter().map(|one| one.key.clone()).collect();
        let has_entry =
            |state| matches!(state, RecordState::Withheld | RecordState::Imported | RecordState::Superseded);
        let with_entry = compared.iter().filter(|one| has_entry(one.state)).map(|one| one.key.clone());
        memory.known.extend(with_entry);
        memory.known.retain(|key| all.contains(key));
        memory.checked.retain(|key, _| all.contains(key));
        let released: HashSet<&RecordKey> =
            compared.iter().filter(|one| one.state == RecordState::Released).map(|one| &one.key).collect();
        memory.released_since.retain(|key, _| released.contains(key));
        if let Some(seen) = &memory.seen {
            let now = Timestamp::now().as_second();
            let is_recent = |at: Timestamp| now - at.as_second() <= RECENT_WRITE_SECONDS;
            let added: Vec<String> = compared
                .iter()
                .filter(|one| !seen.contains(&one.key))
                .filter_map(|one| one.ip_pool.as_ref())
                .filter(|pool| pool.written_by_whereabouts.is_some_and(is_recent))
                .map(|pool| pool.describe())
                .collect();
            let until = Instant::now() + UPSTREAM_ACTIVE_PERIOD;
            memory.active_until.extend(added.into_iter().map(|pool| (pool, until)));
        }
        memory.active_until.retain(|_, until| *until > Instant::now());
        for pool in self.caches.whereabouts_pools.cache.values() {
            let source = pool.describe();
            if memory.active_until.contains_key(&source) {
                let reason = format!(
                    "Whereabouts still adds records to {source}; stop it on all nodes, then wait ten minutes"
                );
                report
                    .blocked
                    .extend(pool.ranges().into_iter().map(|range| blocked_net(range, reason.clone())));
            }
        }
        memory.seen = Some(all);
    }

    /// Removes placeholders whose record is gone: whoever assigned the address has released it.
    fn remove_orphans(&self, compared: &[ComparedRecord], changes: &mut BlockChanges) {
        let mut memory = self.memory.lock();
        if !memory.has_placeholders && compared.is_empty() {
            return;
        }
        let container = |one: &ComparedRecord| (one.record.slot.clone(), one.key.2.clone());
        let recorded: HashSet<(RecordSlot, String)> = compared.iter().map(container).collect();
        memory.has_placeholders = false;
        for cached in self.caches.blocks.values() {
            for (offset, entry) in cached.block.entries.iter().filter(|(_, entry)| is_placeholder(entry)) {
                memory.has_placeholders = true;
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
        let due: Vec<&ComparedRecord> = {
            let mut memory = self.memory.lock();
            let open = |one: &&ComparedRecord| {
                one.record.primary && matches!(one.state, RecordState::Withheld | RecordState::Conflict)
            };
            let is_due = |one: &&ComparedRecord| {
                memory.checked.get(&one.key).is_none_or(|at| at.elapsed() >= RECHECK_INTERVAL)
            };
            let due: Vec<_> = compared.iter().filter(open).filter(is_due).take(MAX_DECISIONS).collect();
            memory.checked.extend(due.iter().map(|one| (one.key.clone(), Instant::now())));
            due
        };
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
        self.forget_after_restore();
        let begin = Instant::now();
        let compared = self.compare(&mut report);
        self.remember(&compared, &mut report);
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
                    self.note_import();
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
                (RecordState::Released, _) if self.is_released(&one.key) => outdated.push(one),
                (RecordState::Released, _) => releasing = true,
                (RecordState::Withheld | RecordState::Conflict, _) => undecided = true,
                _ => {}
            }
        }
        failed.extend(changes.write(&self.context, &self.caches).await);
        failed.extend(self.remove_outdated(&outdated).await);
        report.importing = self.is_importing(&compared);
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
