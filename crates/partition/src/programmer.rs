//! What is wanted, what is seen, what is under way, and what comes next. Pure: time is given, requests are
//! returned.
//!
//! ```text
//! want(table) ─┐                         ┌─▶ batches(now) ──▶ under way ──▶ finished(…)
//! own(owned) ──┼─▶ diff, less what is under way or has to wait                    │
//! listed(…) ───┘                                    failed: unsure, backs off ◀───┘
//! ```

use crate::change::{diff, of_partition};
use crate::{Backoff, Batch, Change, Error, GuidRange, Key, Owned, Pace, Table};
use ferroband_model::Guid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How one membership stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
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
struct Trouble {
    attempts: u32,
    until: Instant,
    error: String,
}

/// The state of a subnet manager's partitions and of our work on them.
#[derive(Debug, Default)]
pub struct Programmer {
    wanted: Arc<Table>,
    owned: Owned,
    /// What the manager has, as far as we know; nothing is sent before it has been listed once.
    seen: Option<Table>,
    unsure: BTreeSet<(Key, Guid)>,
    under_way: BTreeMap<Key, Change>,
    trouble: BTreeMap<Key, Trouble>,
    /// Counts batches and lists, so that an old list does not undo what was done since.
    clock: u64,
    touched: BTreeMap<Key, u64>,
    backoff: Backoff,
    /// Nothing is sent before it has been said once what is wanted.
    told: bool,
    /// The manager is not as we left it, although no membership differs.
    stale: bool,
    /// What differs, kept from one look to the next: with a thousand partitions a look at all of them is not for free.
    open: Option<BTreeMap<Key, Change>>,
}

impl Programmer {
    /// What should be, from now on.
    pub fn want(&mut self, wanted: Table, owned: Owned) {
        let gone = |key: &Key| wanted.members(*key).next().is_none();
        // A partition that nobody wants in any more owes its removals only; it may begin afresh.
        self.trouble.retain(|key, _| !gone(key) || self.unsure.iter().any(|(unsure, _)| unsure == key));
        self.wanted = Arc::new(wanted);
        self.owned = owned;
        self.told = true;
        self.open = None;
    }

    /// What should be.
    pub fn wanted(&self) -> &Table {
        &self.wanted
    }

    /// What is ours.
    pub fn owned(&self) -> &Owned {
        &self.owned
    }

    /// Whether it has been said what is wanted.
    pub fn is_told(&self) -> bool {
        self.told
    }

    /// Members in this range that are nobody's here: neither wanted nor ours.
    pub fn strangers(&self, range: GuidRange) -> impl Iterator<Item = (Key, Guid)> {
        let all = self.seen.iter().flat_map(Table::iter).map(|(key, guid, _)| (key, guid));
        all.filter(move |(key, guid)| {
            range.contains(*guid)
                && !self.owned.guids.contains(guid)
                && !self.owned.placed.contains(&(*key, *guid))
        })
    }

    /// Whether a member is known to be out of a partition.
    pub fn is_gone(&self, key: Key, guid: Guid) -> bool {
        let adding = self.under_way.get(&key).is_some_and(|change| change.add.contains_key(&guid));
        self.seen.as_ref().is_some_and(|seen| seen.get(key, guid).is_none())
            && !self.unsure.contains(&(key, guid))
            && !adding
    }

    /// What the manager has, as far as is known.
    pub fn seen(&self) -> Option<&Table> {
        self.seen.as_ref()
    }

    /// A list is about to be asked for; give the mark back with the answer.
    pub fn listing(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The manager has listed its partitions. What was changed since it was asked stays as we know it.
    pub fn listed(&mut self, mark: u64, mut table: Table, stale: bool) {
        self.stale = stale;
        let newer = self.touched.iter().filter(|(_, at)| **at > mark).map(|(key, _)| *key);
        let keep: BTreeSet<Key> = newer.chain(self.under_way.keys().copied()).collect();
        if let Some(seen) = &self.seen {
            for key in &keep {
                table.take_partition(*key, seen);
            }
        }
        self.seen = Some(table);
        self.unsure.retain(|(key, _)| keep.contains(key));
        self.touched.retain(|_, at| *at > mark);
        self.open = None;
    }

    /// The manager is another one, or begins anew: nothing is known of it, and nothing has to wait.
    pub fn forget(&mut self) {
        self.seen = None;
        self.trouble.clear();
        self.unsure.clear();
        self.open = None;
    }

    /// What differs, by partition.
    pub fn differences(&mut self) -> &BTreeMap<Key, Change> {
        self.open.get_or_insert_with(|| match &self.seen {
            Some(seen) => diff(&self.wanted, seen, &self.unsure, &self.owned),
            None => BTreeMap::new(),
        })
    }

    /// Looks at one partition again.
    fn look(&mut self, key: Key) {
        let (Some(open), Some(seen)) = (&mut self.open, &self.seen) else { return };
        let change = of_partition(key, &self.wanted, seen, &self.unsure, &self.owned);
        match change.is_empty() {
            true => open.remove(&key),
            false => open.insert(key, change),
        };
    }

    /// The batches that may start now. They count as under way until [`Self::finished`].
    pub fn batches(&mut self, now: Instant, pace: Pace) -> Vec<Batch> {
        let most =
            if pace.at_once <= 1 { usize::MAX } else { pace.at_once.saturating_sub(self.under_way.len()) };
        if !self.told || (pace.at_once <= 1 && !self.under_way.is_empty()) {
            return Vec::new();
        }
        self.differences();
        let waits = |key: &Key| self.trouble.get(key).is_some_and(|trouble| trouble.until > now);
        let ready: BTreeMap<Key, Change> = self
            .open
            .iter()
            .flatten()
            .filter(|(key, _)| !self.under_way.contains_key(key) && !waits(key))
            .take(most)
            .map(|(key, change)| (*key, change.clone()))
            .collect();
        let groups: Vec<BTreeMap<Key, Change>> = match pace.at_once {
            0 | 1 if ready.is_empty() && !std::mem::take(&mut self.stale) => Vec::new(),
            0 | 1 => vec![ready],
            _ => ready.into_iter().map(|entry| BTreeMap::from([entry])).collect(),
        };
        groups
            .into_iter()
            .map(|changes| {
                self.clock += 1;
                for (key, change) in &changes {
                    self.touched.insert(*key, self.clock);
                    self.under_way.insert(*key, change.clone());
                }
                Batch { changes, wanted: self.wanted.clone() }
            })
            .collect()
    }

    /// When a partition that has to wait may go on, if any has to.
    pub fn next(&self, now: Instant) -> Option<Duration> {
        let until = self.trouble.values().map(|trouble| trouble.until).filter(|until| *until > now).min();
        until.map(|until| until - now)
    }

    /// A batch has ended.
    pub fn finished(&mut self, batch: &Batch, outcome: &Result<(), Error>, now: Instant) {
        for (key, change) in &batch.changes {
            self.under_way.remove(key);
            self.clock += 1;
            self.touched.insert(*key, self.clock);
            let members = change.add.keys().chain(&change.remove).map(|guid| (*key, *guid));
            match outcome {
                Ok(()) => {
                    let seen = self.seen.get_or_insert_default();
                    change.add.iter().for_each(|(guid, membership)| seen.set(*key, *guid, *membership));
                    change.remove.iter().for_each(|guid| seen.remove(*key, *guid));
                    members.for_each(|member| {
                        self.unsure.remove(&member);
                    });
                    self.trouble.remove(key);
                }
                Err(error) => {
                    // A refusal may concern one of many, and the others may have been done.
                    self.unsure.extend(members);
                    let attempts = self.trouble.get(key).map_or(0, |trouble| trouble.attempts) + 1;
                    let until = now + self.backoff.after(attempts);
                    let error = error.to_string();
                    self.trouble.insert(*key, Trouble { attempts, until, error });
                }
            }
            self.look(*key);
        }
    }

    /// How a wanted membership stands.
    pub fn standing(&self, key: Key, guid: Guid) -> Standing {
        let wanted = self.wanted.get(key, guid);
        let seen = self.seen.as_ref().and_then(|seen| seen.get(key, guid));
        // One that is wanted again while it is being removed is not there yet.
        let leaving = self.under_way.get(&key).is_some_and(|change| change.remove.contains(&guid));
        if wanted.is_some() && wanted == seen && !leaving && !self.unsure.contains(&(key, guid)) {
            return Standing::Programmed;
        }
        match self.trouble.get(&key) {
            Some(Trouble { attempts, error, .. }) => {
                Standing::Failing { attempts: *attempts, error: error.clone() }
            }
            None => Standing::Pending,
        }
    }

    /// Whether a GUID is known to be in none of the partitions that we may touch: listed, and no outcome open.
    pub fn is_out(&self, guid: Guid) -> bool {
        let in_some = |seen: &Table| seen.iter().any(|(_, member, _)| member == guid);
        let moving = |change: &Change| change.add.contains_key(&guid);
        self.seen.as_ref().is_some_and(|seen| !in_some(seen))
            && !self.unsure.iter().any(|(_, unsure)| *unsure == guid)
            && !self.under_way.values().any(moving)
    }
}

#[cfg(test)]
mod tests;
