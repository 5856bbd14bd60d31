//! When a node learned what it knows about the blocks, and what it reads to learn more.

use super::calls::BlockCall;
use crate::block::IpBlockId;
use crate::ip_space::IpSpace;
use crate::labels::{BlockScope, region_of};
use crate::pool::AddressPool;
use ferroband_model::fnv1a;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// How long a read or a list proves that addresses are not free. Within this time, further requests get the same answer
/// without another read.
const PROOF_VALIDITY: Duration = Duration::from_secs(5);
/// How long the index of a space is used before it is read again.
const INDEX_VALIDITY: Duration = Duration::from_secs(30);
/// Pause after a write with an unknown result until the node lists its blocks. The API server may execute the write long
/// after the node has given up waiting, and the node must find the entry.
const RELIST_AFTER_UNKNOWN_WRITE: Duration = Duration::from_secs(60);
/// How long after a list of its blocks the node lists them again, with up to half of that as jitter. It finds entries that
/// others wrote for it or removed.
const RELIST_INTERVAL: Duration = Duration::from_secs(1800);
/// Number of conflicts in a pool after which the node reads about its blocks, and after which an index is not enough.
const PROBES_BEFORE_INDEX: u32 = 2;
const PROBES_BEFORE_LIST: u32 = 5;
/// The blocks of a pool with at most this many blocks are read one by one. Others are listed.
const MAX_SINGLE_READS: u128 = 8;

/// Space and name of a pool.
type PoolKey = (IpSpace, String);

#[derive(Debug, Default)]
pub(super) struct BlockKnowledge {
    /// Whether the blocks with the label of the node have been listed.
    pub(super) own_listed: bool,
    /// Whether they have been listed since the start, or since it became known that others changed them.
    pub(super) synced: bool,
    relist_at: Option<Duration>,
    /// Part of [`RELIST_INTERVAL`] that is different for each node.
    jitter: Duration,
    /// Blocks that must be read before the next plan: those whose last write conflicted or has an unknown result.
    pub(super) uncertain: BTreeSet<IpBlockId>,
    /// Round and time of the call that last returned a block.
    seen: BTreeMap<IpBlockId, (u64, Duration)>,
    /// Time of the last list by space and region; the region is `None` for the whole space.
    listed: BTreeMap<(IpSpace, Option<IpAddr>), Duration>,
    indexed: BTreeMap<IpSpace, Duration>,
    /// Conflicts of consecutive writes that take addresses of a pool.
    probes: BTreeMap<PoolKey, u32>,
}

fn is_recent(time: Option<&Duration>, validity: Duration, now: Duration) -> bool {
    time.is_some_and(|time| now.saturating_sub(*time) < validity)
}

impl BlockKnowledge {
    pub(super) fn new(node: &str) -> Self {
        let jitter = Duration::from_millis(fnv1a(node.bytes()) % (RELIST_INTERVAL.as_millis() as u64 / 2));
        Self { jitter, ..Self::default() }
    }

    pub(super) fn note_seen(&mut self, id: IpBlockId, round: u64, now: Duration) {
        self.uncertain.remove(&id);
        self.seen.insert(id, (round, now));
    }

    pub(super) fn note_listed(&mut self, scope: BlockScope, now: Duration) {
        let whole = scope.regions.is_empty().then_some(None);
        let regions = scope.regions.into_iter().map(Some).chain(whole);
        self.listed.extend(regions.map(|region| ((scope.space.clone(), region), now)));
    }

    /// Whether the region, or the whole space if it is `None`, was listed within `validity`.
    fn is_listed(&self, space: &IpSpace, region: Option<IpAddr>, validity: Duration, now: Duration) -> bool {
        let time = |region| self.listed.get(&(space.clone(), region));
        is_recent(time(region), validity, now) || is_recent(time(None), validity, now)
    }

    pub(super) fn note_indexed(&mut self, space: &IpSpace, now: Duration) {
        self.indexed.insert(space.clone(), now);
    }

    /// Records a write whose result is unknown.
    pub(super) fn note_unknown_write(&mut self, id: IpBlockId, now: Duration) {
        self.uncertain.insert(id);
        let at = now + RELIST_AFTER_UNKNOWN_WRITE;
        self.relist_at = Some(self.relist_at.map_or(at, |relist_at| relist_at.min(at)));
    }

    /// Records whether a write that takes an address of `pool` conflicted.
    pub(super) fn note_probe(&mut self, pool: &AddressPool, conflict: bool) {
        let key = (pool.space().clone(), pool.name().to_owned());
        if conflict {
            *self.probes.entry(key).or_default() += 1;
        } else if !self.probes.is_empty() {
            self.probes.remove(&key);
        }
    }

    /// Forgets what only the requests that are answered now needed.
    pub(super) fn end_requests(&mut self, now: Duration) {
        self.probes.clear();
        self.seen.retain(|_, (_, seen)| is_recent(Some(seen), PROOF_VALIDITY, now));
        self.listed.retain(|_, listed| is_recent(Some(listed), INDEX_VALIDITY, now));
    }

    /// Whether the blocks of the node must be listed now.
    pub(super) fn needs_own_list(&mut self, now: Duration) -> bool {
        if self.relist_at.is_some_and(|at| at <= now) {
            self.own_listed = false;
        }
        !self.own_listed
    }

    pub(super) fn note_own_listed(&mut self, now: Duration) {
        (self.own_listed, self.synced) = (true, true);
        self.relist_at = Some(now + RELIST_INTERVAL + self.jitter);
    }

    /// Whether a call of a round after `round` has returned the block.
    pub(super) fn is_seen_after(&self, id: &IpBlockId, round: u64) -> bool {
        self.seen.get(id).is_some_and(|(seen, _)| *seen > round)
    }

    /// Whether the block was returned a moment ago.
    pub(super) fn is_proven(&self, id: &IpBlockId, now: Duration) -> bool {
        is_recent(self.seen.get(id).map(|(_, time)| time), PROOF_VALIDITY, now)
            || self.is_listed(&id.space, Some(region_of(id.first)), PROOF_VALIDITY, now)
    }

    /// Returns the calls that prove which addresses of the pool are free. None are needed if that is known.
    pub(super) fn prove(&self, pool: &AddressPool, now: Duration) -> Vec<BlockCall> {
        let space = pool.space();
        if pool.block_count() > MAX_SINGLE_READS {
            return self.unlisted(pool, PROOF_VALIDITY, now).map(BlockCall::ListSpace).into_iter().collect();
        }
        let ids = pool.blocks_from(None).map(|first| IpBlockId { space: space.clone(), first });
        ids.filter(|id| !self.is_proven(id, now)).map(BlockCall::Read).collect()
    }

    /// Returns what of the pool's part of the space was not listed within `validity`; `None` if all was.
    fn unlisted(&self, pool: &AddressPool, validity: Duration, now: Duration) -> Option<BlockScope> {
        let mut scope = pool.scope();
        if scope.regions.is_empty() {
            return Some(scope).filter(|scope| !self.is_listed(&scope.space, None, validity, now));
        }
        scope.regions.retain(|region| !self.is_listed(&scope.space, Some(*region), validity, now));
        Some(scope).filter(|scope| !scope.regions.is_empty())
    }

    /// Returns the calls that the node makes before it tries another block of the pool.
    pub(super) fn explore(&self, pool: &AddressPool, now: Duration) -> Vec<BlockCall> {
        let key = (pool.space().clone(), pool.name().to_owned());
        let probes = self.probes.get(&key).copied().unwrap_or_default();
        let small = pool.block_count() <= MAX_SINGLE_READS;
        if probes >= PROBES_BEFORE_LIST || small && probes >= PROBES_BEFORE_INDEX {
            return self.prove(pool, now);
        }
        let known = is_recent(self.indexed.get(pool.space()), INDEX_VALIDITY, now)
            || self.unlisted(pool, INDEX_VALIDITY, now).is_none();
        if probes >= PROBES_BEFORE_INDEX && !known {
            return vec![BlockCall::ReadIndex(pool.space().clone())];
        }
        Vec::new()
    }
}
