//! The order in which a node takes free addresses from a pool.

use crate::block::IpBlockId;
use crate::block_view::BlockSummary;
use crate::draft::BlockDraft;
use crate::pool::AddressPool;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Nodes claim whole blocks only while the pool has at least this many free blocks per node.
const MIN_FREE_BLOCKS_PER_NODE: u128 = 4;

/// Iterates over the free addresses of one pool in the order in which one node takes them.
///
/// ```text
/// OwnBlocks ──▶ NewBlocks ──▶ SharedBlocks ──▶ OtherNodes
///  │             │              │                └ free addresses in blocks claimed by other nodes, as a last resort
///  │             │              └ blocks that no node has claimed, created if missing, shared by all nodes
///  │             └ unused blocks, claimed by this node while the pool has plenty
///  └ blocks claimed by this node
/// ```
pub(crate) struct AddressChooser<'a> {
    pool: &'a AddressPool,
    node: &'a str,
    node_count: usize,
    attempt: u32,
    stage: ChooserStage,
    queue: VecDeque<IpBlockId>,
    /// First address of the last block queued in this stage. The search continues after that block.
    cursor: Option<IpAddr>,
    searched: bool,
    /// Number of blocks of the pool that no node has claimed or used.
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
        let free_blocks = pool.block_count().saturating_sub(taken as u128);
        let queue = VecDeque::new();
        Self {
            pool,
            node,
            node_count,
            attempt,
            stage: ChooserStage::OwnBlocks,
            queue,
            cursor: None,
            searched: false,
            free_blocks,
        }
    }

    /// Returns the block and the offset of the next free address. If this node claims the block, the third value is
    /// the node's name.
    pub(crate) fn next_free(&mut self, draft: &BlockDraft<'_>) -> Option<(IpBlockId, u8, Option<&'a str>)> {
        loop {
            while let Some(id) = self.queue.front() {
                let Some(offset) = draft.free_offset(self.pool, id) else {
                    self.queue.pop_front();
                    continue;
                };
                if self.stage != ChooserStage::NewBlocks {
                    return Some((id.clone(), offset, None));
                }
                let own = draft.summary(id).is_some_and(|block| block.node == Some(self.node));
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

    fn is_ample(&self) -> bool {
        self.free_blocks >= MIN_FREE_BLOCKS_PER_NODE * self.node_count.max(1) as u128 && self.free_blocks > 0
    }

    fn enter(&mut self, stage: ChooserStage) {
        self.stage = stage;
        self.queue.clear();
        self.cursor = None;
        self.searched = false;
    }

    /// Queues more blocks for the current stage. Returns false if there are none.
    fn refill(&mut self, draft: &BlockDraft<'_>) -> bool {
        match self.stage {
            ChooserStage::OwnBlocks | ChooserStage::OtherNodes => {
                if self.searched {
                    return false;
                }
                let in_stage =
                    |holder: &str| (holder == self.node) == (self.stage == ChooserStage::OwnBlocks);
                self.queue = draft
                    .summaries_of(self.pool)
                    .filter(|block| block.node.is_some_and(in_stage))
                    .map(|block| block.id.clone())
                    .collect();
                if self.stage == ChooserStage::OtherNodes {
                    self.rotate_by_node(self.queue.len());
                }
            }
            ChooserStage::NewBlocks => {
                self.queue_next_blocks(draft, |block| block.is_none_or(|block| block.is_claimable()));
            }
            // Include blocks that this node has claimed, because a request for another pool in the same batch
            // may have claimed one after the stage `OwnBlocks`.
            ChooserStage::SharedBlocks => {
                let node = self.node;
                let usable = |block: BlockSummary<'_>| block.node.is_none_or(|holder| holder == node);
                self.queue_next_blocks(draft, |block| block.is_none_or(usable));
            }
        }
        self.searched = true;
        !self.queue.is_empty()
    }

    /// Queues the next blocks of the pool, in ascending order, that match `suitable` and have a free address.
    fn queue_next_blocks(
        &mut self,
        draft: &BlockDraft<'_>,
        suitable: impl Fn(Option<BlockSummary<'_>>) -> bool,
    ) {
        // After a conflict the node considers more blocks and starts at a different one than its competitors. The
        // first attempt takes the lowest block, so an idle pool fills from its start, as users expect.
        let window = 4usize.pow(self.attempt.min(5));
        let skip = usize::from(self.cursor.is_some());
        let space = self.pool.space();
        let found = self
            .pool
            .blocks_from(self.cursor)
            .skip(skip)
            .map(|first| IpBlockId { space: space.clone(), first })
            .filter(|id| suitable(draft.summary(id)) && draft.free_offset(self.pool, id).is_some())
            .take(window);
        self.queue = found.collect();
        if let Some(last) = self.queue.back() {
            self.cursor = Some(last.first);
        }
        if !self.searched {
            self.rotate_by_node(window);
        }
    }

    /// Rotates the first `window` blocks of the queue by an amount that depends on node and attempt.
    fn rotate_by_node(&mut self, window: usize) {
        let window = window.min(self.queue.len());
        if self.attempt > 0 && window > 1 {
            let seed = self.node.bytes().chain(self.attempt.to_le_bytes());
            self.queue.rotate_left((ferroband_model::fnv1a(seed) % window as u64) as usize);
        }
    }
}

#[cfg(test)]
mod tests;
