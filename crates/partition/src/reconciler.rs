//! What is wanted, what is seen, what is under way, and what comes next. Pure: time is given, requests are
//! returned.
//!
//! ```text
//! want(table) ─┐                         ┌─▶ batches(now) ──▶ under way ──▶ finished(…)
//! own(owned) ──┼─▶ diff, less what is under way or has to wait                    │
//! listed(…) ───┘                                    failed: unsure, backs off ◀───┘
//! ```

use crate::partition_change::{diff, diff_partition};
use crate::{
    Backoff, Error, GuidRange, MembershipTable, Ownership, PKeyBase, PartitionBatch, PartitionChange,
    RateLimits,
};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How one membership stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// The manager has it as wanted.
    Programmed,
    /// It is on its way, or nothing has been heard of the manager yet.
    Pending,
    /// It failed so often; the last time like this.
    Failing {
        /// How often.
        attempts: u32,
        /// What was said.
        error: String,
    },
}

#[derive(Clone, Debug)]
struct PartitionFailure {
    attempts: u32,
    retry_at: Instant,
    error: String,
}

/// The state of a subnet manager's partitions and of our work on them.
#[derive(Debug, Default)]
pub struct PartitionReconciler {
    desired: Arc<MembershipTable>,
    ownership: Ownership,
    /// What the manager has, as far as we know; nothing is sent before it has been listed once.
    observed: Option<MembershipTable>,
    uncertain: BTreeSet<(PKeyBase, Guid)>,
    in_flight: BTreeMap<PKeyBase, PartitionChange>,
    failures: BTreeMap<PKeyBase, PartitionFailure>,
    /// Counts batches and lists, so that an old list does not undo what was done since.
    sequence: u64,
    changed_at: BTreeMap<PKeyBase, u64>,
    backoff: Backoff,
    /// Nothing is sent before it has been said once what is wanted.
    has_desired: bool,
    /// The manager is not as we left it, although no membership differs.
    stale: bool,
    /// What differs, kept from one look to the next: with a thousand partitions a look at all of them is not for free.
    pending_changes: Option<BTreeMap<PKeyBase, PartitionChange>>,
}

impl PartitionReconciler {
    /// What should be, from now on.
    pub fn set_desired(&mut self, wanted: MembershipTable, owned: Ownership) {
        let gone = |key: &PKeyBase| wanted.members(*key).next().is_none();
        // A partition that nobody wants in any more owes its removals only; it may begin afresh.
        self.failures.retain(|key, _| !gone(key) || self.uncertain.iter().any(|(unsure, _)| unsure == key));
        self.desired = Arc::new(wanted);
        self.ownership = owned;
        self.has_desired = true;
        self.pending_changes = None;
    }

    /// What should be.
    pub fn desired(&self) -> &MembershipTable {
        &self.desired
    }

    /// What is ours.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Whether it has been said what is wanted.
    pub fn has_desired(&self) -> bool {
        self.has_desired
    }

    /// Members in this range that are nobody's here: neither wanted nor ours.
    pub fn foreign_members(&self, range: GuidRange) -> impl Iterator<Item = (PKeyBase, Guid)> {
        let all = self.observed.iter().flat_map(MembershipTable::iter).map(|(key, guid, _)| (key, guid));
        all.filter(move |(key, guid)| {
            range.contains(*guid)
                && !self.ownership.guids.contains(guid)
                && !self.ownership.placed.contains(&(*key, *guid))
        })
    }

    /// Whether a member is known to be out of a partition.
    pub fn is_removed(&self, key: PKeyBase, guid: Guid) -> bool {
        let adding = self.in_flight.get(&key).is_some_and(|change| change.add.contains_key(&guid));
        self.observed.as_ref().is_some_and(|seen| seen.get(key, guid).is_none())
            && !self.uncertain.contains(&(key, guid))
            && !adding
    }

    /// What the manager has, as far as is known.
    pub fn observed(&self) -> Option<&MembershipTable> {
        self.observed.as_ref()
    }

    /// A list is about to be asked for; give the mark back with the answer.
    pub fn begin_list(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The manager has listed its partitions. What was changed since it was asked stays as we know it.
    pub fn record_list(&mut self, mark: u64, mut table: MembershipTable, stale: bool) {
        self.stale = stale;
        let newer = self.changed_at.iter().filter(|(_, at)| **at > mark).map(|(key, _)| *key);
        let keep: BTreeSet<PKeyBase> = newer.chain(self.in_flight.keys().copied()).collect();
        if let Some(seen) = &self.observed {
            for key in &keep {
                table.copy_partition(*key, seen);
            }
        }
        self.observed = Some(table);
        self.uncertain.retain(|(key, _)| keep.contains(key));
        self.changed_at.retain(|_, at| *at > mark);
        self.pending_changes = None;
    }

    /// The manager is another one, or begins anew: nothing is known of it, and nothing has to wait.
    pub fn reset(&mut self) {
        self.observed = None;
        self.failures.clear();
        self.uncertain.clear();
        self.pending_changes = None;
    }

    /// What differs, by partition.
    pub fn pending_changes(&mut self) -> &BTreeMap<PKeyBase, PartitionChange> {
        self.pending_changes.get_or_insert_with(|| match &self.observed {
            Some(seen) => diff(&self.desired, seen, &self.uncertain, &self.ownership),
            None => BTreeMap::new(),
        })
    }

    /// Looks at one partition again.
    fn refresh_partition(&mut self, key: PKeyBase) {
        let (Some(open), Some(seen)) = (&mut self.pending_changes, &self.observed) else { return };
        let change = diff_partition(key, &self.desired, seen, &self.uncertain, &self.ownership);
        match change.is_empty() {
            true => open.remove(&key),
            false => open.insert(key, change),
        };
    }

    /// The batches that may start now. They count as under way until [`Self::finished`].
    pub fn start_batches(&mut self, now: Instant, pace: RateLimits) -> Vec<PartitionBatch> {
        let most = if pace.max_in_flight <= 1 {
            usize::MAX
        } else {
            pace.max_in_flight.saturating_sub(self.in_flight.len())
        };
        if !self.has_desired || (pace.max_in_flight <= 1 && !self.in_flight.is_empty()) {
            return Vec::new();
        }
        self.pending_changes();
        let waits = |key: &PKeyBase| self.failures.get(key).is_some_and(|trouble| trouble.retry_at > now);
        let ready: BTreeMap<PKeyBase, PartitionChange> = self
            .pending_changes
            .iter()
            .flatten()
            .filter(|(key, _)| !self.in_flight.contains_key(key) && !waits(key))
            .take(most)
            .map(|(key, change)| (*key, change.clone()))
            .collect();
        let groups: Vec<BTreeMap<PKeyBase, PartitionChange>> = match pace.max_in_flight {
            0 | 1 if ready.is_empty() && !std::mem::take(&mut self.stale) => Vec::new(),
            0 | 1 => vec![ready],
            _ => ready.into_iter().map(|entry| BTreeMap::from([entry])).collect(),
        };
        groups
            .into_iter()
            .map(|changes| {
                self.sequence += 1;
                for (key, change) in &changes {
                    self.changed_at.insert(*key, self.sequence);
                    self.in_flight.insert(*key, change.clone());
                }
                PartitionBatch { changes, desired: self.desired.clone() }
            })
            .collect()
    }

    /// When a partition that has to wait may go on, if any has to.
    pub fn next_retry(&self, now: Instant) -> Option<Duration> {
        let until = self.failures.values().map(|trouble| trouble.retry_at).filter(|until| *until > now).min();
        until.map(|until| until - now)
    }

    /// A batch has ended.
    pub fn finish_batch(&mut self, batch: &PartitionBatch, outcome: &Result<(), Error>, now: Instant) {
        for (key, change) in &batch.changes {
            self.in_flight.remove(key);
            self.sequence += 1;
            self.changed_at.insert(*key, self.sequence);
            let members = change.add.keys().chain(&change.remove).map(|guid| (*key, *guid));
            match outcome {
                Ok(()) => {
                    let seen = self.observed.get_or_insert_default();
                    change.add.iter().for_each(|(guid, membership)| seen.set(*key, *guid, *membership));
                    change.remove.iter().for_each(|guid| seen.remove(*key, *guid));
                    members.for_each(|member| {
                        self.uncertain.remove(&member);
                    });
                    self.failures.remove(key);
                }
                Err(error) => {
                    // A refusal may concern one of many, and the others may have been done.
                    self.uncertain.extend(members);
                    let attempts = self.failures.get(key).map_or(0, |trouble| trouble.attempts) + 1;
                    let until = now + self.backoff.after(attempts);
                    let error = error.to_string();
                    self.failures.insert(*key, PartitionFailure { attempts, retry_at: until, error });
                }
            }
            self.refresh_partition(*key);
        }
    }

    /// How a wanted membership stands.
    pub fn membership_state(&self, key: PKeyBase, guid: Guid) -> MembershipState {
        let wanted = self.desired.get(key, guid);
        let seen = self.observed.as_ref().and_then(|seen| seen.get(key, guid));
        // One that is wanted again while it is being removed is not there yet.
        let leaving = self.in_flight.get(&key).is_some_and(|change| change.remove.contains(&guid));
        if wanted.is_some() && wanted == seen && !leaving && !self.uncertain.contains(&(key, guid)) {
            return MembershipState::Programmed;
        }
        match self.failures.get(&key) {
            Some(PartitionFailure { attempts, error, .. }) => {
                MembershipState::Failing { attempts: *attempts, error: error.clone() }
            }
            None => MembershipState::Pending,
        }
    }

    /// Whether a GUID is known to be in none of the partitions that we may touch: listed, and no outcome open.
    pub fn is_in_no_partition(&self, guid: Guid) -> bool {
        let in_some = |seen: &MembershipTable| seen.iter().any(|(_, member, _)| member == guid);
        let moving = |change: &PartitionChange| change.add.contains_key(&guid);
        self.observed.as_ref().is_some_and(|seen| !in_some(seen))
            && !self.uncertain.iter().any(|(_, unsure)| *unsure == guid)
            && !self.in_flight.values().any(moving)
    }
}

#[cfg(test)]
mod tests;
