//! What the import of foreign records remembers between passes. A new leader starts without it, and decides again.

use super::{
    foreign_records::{ForeignIpPool, ForeignRecord},
    import_plan::{RecordKey, RecordState},
};
use ferroband_api::ferroband::{BlockedAddressRange, EtcdRestore, RestorePhase};
use jiff::Timestamp;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How often to recheck a record for which it is not known yet whether a pod has the address.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(20);
/// How long the entry of a record must be gone before the record is outdated. If a restore of etcd lost the entry, that is
/// known by then.
pub const RELEASE_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// How long nodes look for imported entries after the last one was written. Within this time every node lists its blocks
/// anyway.
const IMPORTING_PERIOD: Duration = Duration::from_secs(3600);
/// How long a range is blocked after Whereabouts was observed to add a record to it.
const UPSTREAM_ACTIVE_PERIOD: Duration = Duration::from_secs(600);
/// A new record is Whereabouts' own if Whereabouts wrote the IPPool this recently.
const RECENT_WRITE_SECONDS: i64 = 60;

/// A record, the state of its entry, and the IPPool that it is in.
pub struct ComparedRecord {
    pub record: ForeignRecord,
    pub key: RecordKey,
    pub state: RecordState,
    pub ip_pool: Option<Arc<ForeignIpPool>>,
}

#[derive(Default)]
pub struct ImportMemory {
    /// Records that had an entry. When the entry is gone, its node has reported that the sandbox is gone.
    pub known: HashSet<RecordKey>,
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
    pub active_until: HashMap<String, Instant>,
    /// Until when nodes look for imported entries.
    importing_until: Option<Instant>,
    /// Whether no block had a placeholder in the last pass.
    pub without_placeholders: bool,
}

impl ImportMemory {
    /// Forgets which records had entries if etcd was restored: an entry may be gone although its sandbox runs.
    pub fn forget_after_restore(&mut self, restore: Option<&EtcdRestore>) {
        let asserting = restore.is_some_and(|restore| restore.phase == RestorePhase::Asserting);
        let epoch = restore.map(|restore| restore.epoch.clone()).unwrap_or_default();
        if asserting || self.epoch != epoch {
            self.known.clear();
            self.released_since.clear();
            self.epoch = epoch;
        }
    }

    /// Whether the entry of a record that is [`RecordState::Released`] has been gone for the grace period.
    pub fn is_released(&mut self, key: &RecordKey) -> bool {
        let since = *self.released_since.entry(key.clone()).or_insert_with(Instant::now);
        since.elapsed() >= RELEASE_GRACE_PERIOD
    }

    /// Notes that an entry of a node was written. The node does not know it yet.
    pub fn note_import(&mut self) {
        self.importing_until = Some(Instant::now() + IMPORTING_PERIOD);
    }

    /// Whether nodes must look for entries that were imported for them. A new leader does not know when the last one was
    /// written, and continues what the AddressState says (`was`).
    pub fn is_importing(&mut self, has_records: bool, was: bool) -> bool {
        if self.importing_until.is_none() && was {
            self.note_import();
        }
        has_records || self.importing_until.is_some_and(|until| until > Instant::now())
    }

    /// Returns the ranges that stay blocked although the object can be read again, because records of it are `missing`.
    pub fn hold_unreadable(
        &mut self,
        source: &str,
        unreadable: Vec<BlockedAddressRange>,
        missing: usize,
    ) -> Vec<BlockedAddressRange> {
        let before = self.unreadable.remove(source).unwrap_or_default();
        let (held, remembered) = match (unreadable.is_empty(), missing) {
            (true, 0) => return Vec::new(),
            (true, _) => (before.clone(), before),
            (false, _) => (Vec::new(), unreadable),
        };
        if !remembered.is_empty() {
            self.unreadable.insert(source.to_owned(), remembered);
        }
        held
    }

    /// Takes the records of a pass. Notes to which IPPools Whereabouts still adds records.
    pub fn update(&mut self, compared: &[ComparedRecord]) {
        let all: HashSet<RecordKey> = compared.iter().map(|one| one.key.clone()).collect();
        let has_entry =
            |state| matches!(state, RecordState::Withheld | RecordState::Imported | RecordState::Superseded);
        let with_entry = compared.iter().filter(|one| has_entry(one.state)).map(|one| one.key.clone());
        self.known.extend(with_entry);
        self.known.retain(|key| all.contains(key));
        self.checked.retain(|key, _| all.contains(key));
        let released = compared.iter().filter(|one| one.state == RecordState::Released);
        let released: HashSet<&RecordKey> = released.map(|one| &one.key).collect();
        self.released_since.retain(|key, _| released.contains(key));
        if let Some(seen) = &self.seen {
            let now = Timestamp::now().as_second();
            let is_recent = |at: Timestamp| now - at.as_second() <= RECENT_WRITE_SECONDS;
            let new = compared.iter().filter(|one| !seen.contains(&one.key));
            let pools = new.filter_map(|one| one.ip_pool.as_ref());
            let active = pools.filter(|pool| pool.written_by_whereabouts.is_some_and(is_recent));
            let until = Instant::now() + UPSTREAM_ACTIVE_PERIOD;
            self.active_until.extend(active.map(|pool| (pool.describe(), until)));
        }
        self.active_until.retain(|_, until| *until > Instant::now());
        self.seen = Some(all);
    }

    /// Returns at most `limit` records whose pod must be read now.
    pub fn take_due<'a>(&mut self, compared: &'a [ComparedRecord], limit: usize) -> Vec<&'a ComparedRecord> {
        let open = |one: &&ComparedRecord| {
            one.record.primary && matches!(one.state, RecordState::Withheld | RecordState::Conflict)
        };
        let is_due = |one: &&ComparedRecord| {
            self.checked.get(&one.key).is_none_or(|at| at.elapsed() >= RECHECK_INTERVAL)
        };
        let due: Vec<_> = compared.iter().filter(open).filter(is_due).take(limit).collect();
        self.checked.extend(due.iter().map(|one| (one.key.clone(), Instant::now())));
        due
    }
}
