//! The order in which a node takes free addresses from a pool.

use crate::block::{IP_BLOCK_SIZE, IpBlockId};
use crate::block_view::BlockSummary;
use crate::draft::BlockDraft;
use crate::pool::AddressPool;
use ferroband_model::fnv1a;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Nodes claim whole blocks only while the pool has at least this many free blocks per node.
const MIN_FREE_BLOCKS_PER_NODE: u128 = 4;

/// A pool with fewer blocks fills from its lowest address, as users expect, unless its nodes write at the same time.
const MIN_SCATTERED_BLOCKS: u128 = 64;

/// Iterates over the free addresses of one pool in the order in which one node takes them.
///
/// ```text
/// OwnBlocks ──▶ NewBlocks ──▶ SharedBlocks ──▶ OtherNodes
///  │             │              │                └ free addresses in blocks claimed by other nodes, as a last resort
///  │             │              └ blocks that no node has claimed, created if missing, shared by all nodes
///  │             └ unused blocks, claimed by this node while the pool has plenty
///  └ blocks that this node has claimed or uses
/// ```
///
/// A block of which nothing is known counts as free.
pub(crate) struct AddressChooser<'a> {
    pool: &'a AddressPool,
    node: &'a str,
    node_count: usize,
    stage: ChooserStage,
    queue: VecDeque<IpBlockId>,
    /// First address of the block where the search starts; `None` for the lowest block. The search continues with the
    /// lowest block after the highest.
    start: Option<IpAddr>,
    /// Whether the node starts at a hash of its name, and not at the lowest block and offset.
    scattered: bool,
    attempt: u32,
    /// First address of the last block queued in this stage.
    cursor: Option<IpAddr>,
    /// Whether the search has continued with the lowest block.
    wrapped: bool,
    searched: bool,
    /// Number of blocks of the pool.
    count: u128,
    /// Number of blocks of the pool that are not known to be claimed or used.
    free_blocks: u128,
}

#[derive(Clone, Copy, PartialEq)]
enum ChooserStage {
    OwnBlocks,
    NewBlocks,
    SharedBlocks,
    OtherNodes,
}

impl<'a> AddressChooser<'a> {
    pub(crate) fn new(
        pool: &'a AddressPool,
        draft: &BlockDraft<'_>,
        node: &'a str,
        node_count: usize,
        attempt: u32,
    ) -> Self {
        let offered = |block: &BlockSummary<'_>| pool.offered_offsets(block.id.first) != 0;
        let taken = draft.summaries_of(pool).filter(offered).filter(|block| !block.is_claimable()).count();
        let count = pool.block_count();
        let scattered = count >= MIN_SCATTERED_BLOCKS || draft.is_contended(pool);
        let start = || pool.block_at(u128::from(spread(node, attempt, 0)) % count.max(1));
        Self {
            pool,
            node,
            node_count,
            stage: ChooserStage::OwnBlocks,
            queue: VecDeque::new(),
            start: scattered.then(start).flatten(),
            scattered,
            attempt,
            cursor: None,
            wrapped: false,
            searched: false,
            count,
            free_blocks: count.saturating_sub(taken as u128),
        }
    }

    /// Returns the block and the offset of the next free address. If this node claims the block, the third value is
    /// the node's name.
    pub(crate) fn next_free(&mut self, draft: &BlockDraft<'_>) -> Option<(IpBlockId, u8, Option<&'a str>)> {
        loop {
            while let Some(id) = self.queue.front() {
                let known = draft.summary(id);
                let own = known.is_some_and(|block| block.node == Some(self.node));
                let claims = self.stage == ChooserStage::NewBlocks;
                // No other node is expected to write to a block that this node claims.
                let start = if own || claims || !self.scattered { 0 } else { self.start_offset(known) };
                let Some(offset) = draft.free_offset(self.pool, id, start) else {
                    self.queue.pop_front();
                    continue;
                };
                if !claims {
                    return Some((id.clone(), offset, None));
                }
                if !own && !self.is_ample() {
                    self.enter(ChooserStage::SharedBlocks);
                    break;
                }
                if !own {
                    self.free_blocks -= 1;
                }
                return Some((id.clone(), offset, Some(self.node)));
            }
            if self.queue.is_empty() && !self.refill(draft) {
                match self.stage {
                    ChooserStage::OwnBlocks => self.enter(if self.is_ample() {
                        ChooserStage::NewBlocks
                    } else {
                        ChooserStage::SharedBlocks
                    }),
                    ChooserStage::NewBlocks => self.enter(ChooserStage::SharedBlocks),
                    ChooserStage::SharedBlocks => self.enter(ChooserStage::OtherNodes),
                    ChooserStage::OtherNodes => return None,
                }
            }
        }
    }

    /// Returns the offset where the search starts in a block that the node has not claimed. It depends on the addresses
    /// that are known to be assigned, so that nodes that share a block seldom choose the same address.
    fn start_offset(&self, known: Option<BlockSummary<'_>>) -> u8 {
        let assigned = known.map_or(0, |block| block.assigned_offsets);
        (spread(self.node, self.attempt, assigned) >> 60) as u8 % IP_BLOCK_SIZE
    }

    fn is_ample(&self) -> bool {
        self.free_blocks >= MIN_FREE_BLOCKS_PER_NODE * self.node_count.max(1) as u128 && self.free_blocks > 0
    }

    fn enter(&mut self, stage: ChooserStage) {
        self.stage = stage;
        self.queue.clear();
        self.cursor = None;
        self.wrapped = false;
        self.searched = false;
    }

    /// Queues more blocks for the current stage. Returns false if there are none.
    fn refill(&mut self, draft: &BlockDraft<'_>) -> bool {
        let node = self.node;
        match self.stage {
            ChooserStage::OwnBlocks | ChooserStage::OtherNodes if self.searched => return false,
            ChooserStage::OwnBlocks => {
                let usable = |block: &BlockSummary<'_>| match block.node {
                    Some(holder) => holder == node,
                    None => draft.is_used_by(node, block.id),
                };
                let own = draft.summaries_of(self.pool).filter(usable);
                self.queue = own.map(|block| block.id.clone()).collect();
            }
            ChooserStage::NewBlocks => {
                self.queue_next(draft, |block| block.is_none_or(|block| block.is_claimable()));
            }
            // Include blocks that this node has claimed, because a request for another pool in the same batch
            // may have claimed one after the stage `OwnBlocks`.
            ChooserStage::SharedBlocks => {
                let usable = |block: BlockSummary<'_>| block.node.is_none_or(|holder| holder == node);
                // After a conflict in a large pool, the block that was read is better than one of which nothing is known.
                if self.attempt > 0 && !self.searched && self.count >= MIN_SCATTERED_BLOCKS {
                    let read = draft.summaries_of(self.pool).filter(|block| draft.get(block.id).is_some());
                    self.queue = read.filter(|block| usable(*block)).map(|block| block.id.clone()).collect();
                }
                if self.queue.is_empty() {
                    self.queue_next(draft, |block| block.is_none_or(usable));
                }
            }
            ChooserStage::OtherNodes => {
                let held = |block: &BlockSummary<'_>| block.node.is_some_and(|holder| holder != node);
                let others = draft.summaries_of(self.pool).filter(held).map(|block| block.id.clone());
                self.queue = others.collect();
                let before_start = |id: &&IpBlockId| self.start.is_some_and(|start| id.first < start);
                let skipped = self.queue.iter().filter(before_start).count();
                self.queue.rotate_left(skipped.min(self.queue.len()));
            }
        }
        self.searched = true;
        !self.queue.is_empty()
    }

    /// Queues the next block of the pool that matches `suitable` and has a free address.
    fn queue_next(&mut self, draft: &BlockDraft<'_>, suitable: impl Fn(Option<BlockSummary<'_>>) -> bool) {
        let (pool, space) = (self.pool, self.pool.space());
        let id = |first: IpAddr| IpBlockId { space: space.clone(), first };
        let fits = |id: &IpBlockId| suitable(draft.summary(id)) && draft.free_offset(pool, id, 0).is_some();
        loop {
            let from = self.cursor.or(self.start.filter(|_| !self.wrapped));
            let end = self.start.filter(|_| self.wrapped);
            let blocks = pool.blocks_from(from).skip(usize::from(self.cursor.is_some()));
            let blocks = blocks.take_while(|first| end.is_none_or(|end| *first < end));
            if let Some(found) = blocks.map(id).find(fits) {
                self.cursor = Some(found.first);
                self.queue.push_back(found);
                return;
            }
            if self.wrapped || self.start.is_none() {
                return;
            }
            (self.wrapped, self.cursor) = (true, None);
        }
    }
}

/// Returns a number that is different for most nodes, attempts and assigned addresses.
fn spread(node: &str, attempt: u32, assigned_offsets: u16) -> u64 {
    // The finalizer of MurmurHash3: every bit of FNV's hash affects every bit of the result.
    let seed = node.bytes().chain(attempt.to_le_bytes()).chain(assigned_offsets.to_le_bytes());
    let mut mixed = fnv1a(seed);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ mixed >> 33).wrapping_mul(factor);
    }
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests;
