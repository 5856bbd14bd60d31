//! State machine that reconciles desired and observed memberships. It does no I/O: the caller passes the time
//! and sends the returned requests.
//!
//! ```text
//! set_desired(…) ─┬─▶ diff ─▶ start_batches(now) ─▶ in flight ─▶ finish_batch(…) ──┐
//! record_list(…) ─┘      without partitions in flight or backing off               │
//!                                                    failed: uncertain, backs off ◀┘
//! ```

use crate::answer_check::{AnswerCheck, DoubtfulAnswer};
use crate::partition_change::{diff, diff_partition};
use crate::{
    Backoff, Error, FabricReport, GuidRange, MembershipTable, Ownership, PartitionBatch, PartitionChange,
    RateLimits, RequestedPKey,
};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// State of one desired membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// The subnet manager has the membership.
    Programmed,
    /// The membership is being sent, or the memberships in the subnet manager have not been read yet.
    Pending,
    /// Requests for the partition failed.
    Failing {
        /// Number of consecutive failed requests.
        attempts: u32,
        /// Message of the last failed request.
        error: String,
    },
}

#[derive(Clone, Debug)]
struct PartitionFailure {
    attempts: u32,
    retry_at: Instant,
    error: String,
}

/// Desired and observed memberships, and the requests in flight.
#[derive(Debug, Default)]
pub struct PartitionReconciler {
    desired: Arc<MembershipTable>,
    ownership: Ownership,
    /// The memberships in the subnet manager, as far as known. `None` until they have been read once. No
    /// change is sent before that.
    observed: Option<MembershipTable>,
    /// Partitions whose members have never been read. Nothing is known about them, and they are not changed.
    unread: BTreeSet<RequestedPKey>,
    answer_check: AnswerCheck,
    /// Number of answers that were recorded since the last reset.
    answers: u32,
    /// Members that the last answer did not list, and that were known before. One answer is not enough to forget them.
    missing_once: BTreeSet<(RequestedPKey, Guid)>,
    uncertain: BTreeSet<(RequestedPKey, Guid)>,
    in_flight: BTreeMap<RequestedPKey, PartitionChange>,
    failures: BTreeMap<RequestedPKey, PartitionFailure>,
    /// Counter that orders batches and reads of the memberships, so that the result of an old read does not
    /// override newer results.
    sequence: u64,
    changed_at: BTreeMap<RequestedPKey, u64>,
    backoff: Backoff,
    /// Whether `set_desired` was called. No change is sent before that.
    has_desired: bool,
    /// Whether all memberships must be sent again although none differs, see
    /// [`FabricReport::stale`](crate::FabricReport).
    stale: bool,
    /// Cached difference between desired and observed memberships. Comparing a thousand partitions on every
    /// call would be too expensive.
    pending_changes: Option<BTreeMap<RequestedPKey, PartitionChange>>,
}

impl PartitionReconciler {
    /// Replaces the desired memberships, and the rules for which memberships may be changed.
    pub fn set_desired(&mut self, desired: MembershipTable, ownership: Ownership) {
        let empty = |key: &RequestedPKey| desired.members(*key).next().is_none();
        // A partition without desired members only has removals left. Its backoff ends, unless the outcome of
        // an earlier request is uncertain.
        self.failures
            .retain(|key, _| !empty(key) || self.uncertain.iter().any(|(uncertain, _)| uncertain == key));
        // No membership differs, but opensm's file does.
        self.stale |= self.has_desired
            && (self.desired.functions() != desired.functions()
                || self.desired.default_membership() != desired.default_membership());
        self.desired = Arc::new(desired);
        self.ownership = ownership;
        self.has_desired = true;
        self.pending_changes = None;
    }

    pub fn desired(&self) -> &MembershipTable {
        &self.desired
    }

    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Whether [`Self::set_desired`] was called.
    pub fn has_desired(&self) -> bool {
        self.has_desired
    }

    /// Observed members with a GUID in `range` that Ferroband does not own.
    pub fn foreign_members(&self, range: GuidRange) -> impl Iterator<Item = (RequestedPKey, Guid)> {
        let all = self.observed.iter().flat_map(MembershipTable::iter).map(|(key, guid, _)| (key, guid));
        all.filter(move |(key, guid)| {
            range.contains(*guid)
                && !self.ownership.guids.contains(guid)
                && !self.ownership.placed.contains(&(*key, *guid))
        })
    }

    /// Whether a member is confirmed to be absent from a partition: by two answers in succession, or by the success of
    /// its removal.
    pub fn is_removed(&self, key: RequestedPKey, guid: Guid) -> bool {
        let adding = self.in_flight.get(&key).is_some_and(|change| change.add.contains_key(&guid));
        self.observed.as_ref().is_some_and(|observed| observed.get(key, guid).is_none())
            && self.answers >= 2
            && !self.missing_once.contains(&(key, guid))
            && !self.unread.contains(&key)
            && !self.uncertain.contains(&(key, guid))
            && !adding
    }

    /// The memberships last read from the subnet manager, with the changes applied since. `None` until they
    /// have been read once.
    pub fn observed(&self) -> Option<&MembershipTable> {
        self.observed.as_ref()
    }

    /// Partitions whose members have never been read, although the others have.
    pub fn unread(&self) -> &BTreeSet<RequestedPKey> {
        &self.unread
    }

    /// Marks the start of a read of all memberships. Pass the returned sequence number to
    /// [`Self::record_list`].
    pub fn begin_list(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Records what was read from the subnet manager. Partitions that changed since the read started, and those that
    /// could not be read, keep their known state. An answer that is returned as doubtful is not recorded.
    pub fn record_list(&mut self, mark: u64, report: &FabricReport) -> Option<DoubtfulAnswer> {
        let mut table = report.members.clone();
        let changed_since = self.changed_at.iter().filter(|(_, at)| **at > mark).map(|(key, _)| *key);
        let keep = changed_since.chain(self.in_flight.keys().copied()).chain(report.unread.iter().copied());
        let keep: BTreeSet<RequestedPKey> = keep.collect();
        if let Some(observed) = &self.observed {
            for key in &keep {
                table.copy_partition(*key, observed);
            }
        }
        let doubt = self.answer_check.doubt(self.observed.as_ref(), &table, report.lacks_default_partition);
        if doubt.is_some() {
            return doubt;
        }
        self.stale = report.stale;
        let is_unknown = |key: &&RequestedPKey| self.observed.is_none() || self.unread.contains(*key);
        self.unread = report.unread.iter().filter(is_unknown).copied().collect();
        let known = self.observed.iter().flat_map(MembershipTable::iter).map(|(key, guid, _)| (key, guid));
        self.missing_once = known.filter(|(key, guid)| table.get(*key, *guid).is_none()).collect();
        self.answers = self.answers.saturating_add(1);
        self.observed = Some(table);
        self.uncertain.retain(|(key, _)| keep.contains(key));
        self.changed_at.retain(|_, at| *at > mark);
        self.pending_changes = None;
        None
    }

    /// Forgets everything but the desired memberships, for a new subnet manager. Batches in flight are abandoned: what
    /// they changed is visible in the next list, and what they did not change is sent again.
    pub fn reset(&mut self) {
        *self = Self {
            desired: std::mem::take(&mut self.desired),
            ownership: std::mem::take(&mut self.ownership),
            has_desired: self.has_desired,
            backoff: self.backoff,
            sequence: self.sequence,
            ..Self::default()
        };
    }

    /// Returns the changes that remain to be made, by partition. Empty until the memberships have been read
    /// once.
    pub fn pending_changes(&mut self) -> &BTreeMap<RequestedPKey, PartitionChange> {
        self.pending_changes.get_or_insert_with(|| match &self.observed {
            Some(observed) => {
                let mut changes = diff(&self.desired, observed, &self.uncertain, &self.ownership);
                changes.retain(|key, _| !self.unread.contains(key));
                changes
            }
            None => BTreeMap::new(),
        })
    }

    /// Recomputes the cached difference between desired and observed memberships of one partition.
    fn refresh_partition(&mut self, key: RequestedPKey) {
        let (Some(changes), Some(observed)) = (&mut self.pending_changes, &self.observed) else { return };
        let change = diff_partition(key, &self.desired, observed, &self.uncertain, &self.ownership);
        match change.is_empty() {
            true => changes.remove(&key),
            false => changes.insert(key, change),
        };
    }

    /// Returns the batches to send now. They are in flight until [`Self::finish_batch`] is called.
    pub fn start_batches(&mut self, now: Instant, limits: RateLimits) -> Vec<PartitionBatch> {
        let free_slots = if limits.max_in_flight <= 1 {
            usize::MAX
        } else {
            limits.max_in_flight.saturating_sub(self.in_flight.len())
        };
        if !self.has_desired
            || self.observed.is_none()
            || (limits.max_in_flight <= 1 && !self.in_flight.is_empty())
        {
            return Vec::new();
        }
        self.pending_changes();
        let backs_off =
            |key: &RequestedPKey| self.failures.get(key).is_some_and(|failure| failure.retry_at > now);
        let ready: BTreeMap<RequestedPKey, PartitionChange> = self
            .pending_changes
            .iter()
            .flatten()
            .filter(|(key, _)| !self.in_flight.contains_key(key) && !backs_off(key))
            .take(free_slots)
            .map(|(key, change)| (*key, change.clone()))
            .collect();
        let groups: Vec<BTreeMap<RequestedPKey, PartitionChange>> = match limits.max_in_flight {
            0 | 1 if ready.is_empty() && !self.stale => Vec::new(),
            0 | 1 => {
                self.stale = false;
                vec![ready]
            }
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

    /// Returns the time until the next partition leaves its backoff; `None` if no partition is backing off.
    pub fn next_retry(&self, now: Instant) -> Option<Duration> {
        let retry_at = self.failures.values().map(|failure| failure.retry_at).filter(|at| *at > now).min();
        retry_at.map(|at| at - now)
    }

    /// Records the outcome of a batch. If it failed, the partitions of the batch back off. The outcome of a batch that
    /// was abandoned by [`Self::reset`] is ignored.
    pub fn finish_batch(&mut self, batch: &PartitionBatch, outcome: &Result<(), Error>, now: Instant) {
        for (key, change) in &batch.changes {
            if self.in_flight.remove(key).is_none() {
                continue;
            }
            self.sequence += 1;
            self.changed_at.insert(*key, self.sequence);
            let members = change.add.keys().chain(&change.remove).map(|guid| (*key, *guid));
            match outcome {
                Ok(()) => {
                    let observed = self.observed.get_or_insert_default();
                    change.add.iter().for_each(|(guid, membership)| observed.set(*key, *guid, *membership));
                    change.remove.iter().for_each(|guid| observed.remove(*key, *guid));
                    members.for_each(|member| {
                        self.uncertain.remove(&member);
                    });
                    self.failures.remove(key);
                }
                Err(error) => {
                    // The error may concern only some members, and others may have been applied, so all are
                    // uncertain.
                    self.uncertain.extend(members);
                    let attempts = self.failures.get(key).map_or(0, |failure| failure.attempts) + 1;
                    let retry_at = now + self.backoff.after(attempts);
                    let error = error.to_string();
                    self.failures.insert(*key, PartitionFailure { attempts, retry_at, error });
                }
            }
            self.refresh_partition(*key);
        }
    }

    /// Returns the state of a membership. A membership that is not desired is never reported as programmed.
    pub fn membership_state(&self, key: RequestedPKey, guid: Guid) -> MembershipState {
        let desired = self.desired.get(key, guid);
        let observed = self.observed.as_ref().and_then(|observed| observed.get(key, guid));
        // A membership that is desired again while its removal is in flight is not programmed yet.
        let removing = self.in_flight.get(&key).is_some_and(|change| change.remove.contains(&guid));
        if desired.is_some() && desired == observed && !removing && !self.uncertain.contains(&(key, guid)) {
            return MembershipState::Programmed;
        }
        match self.failures.get(&key) {
            Some(PartitionFailure { attempts, error, .. }) => {
                MembershipState::Failing { attempts: *attempts, error: error.clone() }
            }
            None => MembershipState::Pending,
        }
    }

    /// Whether a GUID is confirmed to be in no partition: two answers in succession did not list it, and no change that
    /// may have added the GUID is in flight or uncertain.
    pub fn is_in_no_partition(&self, guid: Guid) -> bool {
        let is_member = |observed: &MembershipTable| observed.iter().any(|(_, member, _)| member == guid);
        let adding = |change: &PartitionChange| change.add.contains_key(&guid);
        self.observed.as_ref().is_some_and(|observed| !is_member(observed))
            && self.answers >= 2
            && !self.missing_once.iter().any(|(_, missing)| *missing == guid)
            && self.unread.is_empty()
            && !self.uncertain.iter().any(|(_, uncertain)| *uncertain == guid)
            && !self.in_flight.values().any(adding)
    }
}

#[cfg(test)]
mod tests;
