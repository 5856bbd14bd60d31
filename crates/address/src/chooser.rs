//! Which address next.

use crate::block::IpBlockId;
use crate::block_view::BlockSummary;
use crate::draft::BlockDraft;
use crate::pool::AddressPool;
use std::collections::VecDeque;
use std::net::IpAddr;

/// A pool is ample while it has this many free granules for each node.
const MIN_FREE_BLOCKS_PER_NODE: u128 = 4;

/// The addresses of one pool in the order in which one node takes them.
///
/// ```text
/// Held ──▶ Ahead ──▶ Open ──▶ Others
///  │        │         │        └ granules other nodes hold: their free addresses, before the pool is called full
///  │        │         └ granules nobody holds, made where missing, shared with every node
///  │        └ whole free granules, while the pool is ample
///  └ granules this node holds
/// ```
pub(crate) struct AddressChooser<'a> {
    pool: &'a AddressPool,
    node: &'a str,
    node_count: usize,
    attempt: u32,
    stage: ChooserStage,
    queue: VecDeque<IpBlockId>,
    /// Where to go on looking for free or open granules.
    cursor: Option<IpAddr>,
    searched: bool,
    /// Free granules left.
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
        nodes: usize,
        attempt: u32,
    ) -> Self {
        let offered = |granule: &BlockSummary<'_>| pool.offered_offsets(granule.id.first) != 0;
        let taken =
            draft.summaries_of(pool).filter(offered).filter(|granule| !granule.is_claimable()).count();
        let free = pool.block_count().saturating_sub(taken as u128);
        let queue = VecDeque::new();
        Self {
            pool,
            node,
            node_count: nodes,
            attempt,
            stage: ChooserStage::OwnBlocks,
            queue,
            cursor: None,
            searched: false,
            free_blocks: free,
        }
    }

    /// The next free address and the node that shall hold its granule, if the granule has no holder.
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
                let mine = draft.summary(id).is_some_and(|granule| granule.node == Some(self.node));
                if !mine && !self.is_ample() {
                    self.enter(ChooserStage::SharedBlocks);
                    break;
                }
                if !mine {
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

    /// Finds more granules for this stage; false when there are none.
    fn refill(&mut self, draft: &BlockDraft<'_>) -> bool {
        match self.stage {
            ChooserStage::OwnBlocks | ChooserStage::OtherNodes => {
                if self.searched {
                    return false;
                }
                let wanted = |holder: &str| (holder == self.node) == (self.stage == ChooserStage::OwnBlocks);
                self.queue = draft
                    .summaries_of(self.pool)
                    .filter(|granule| granule.node.is_some_and(wanted))
                    .map(|granule| granule.id.clone())
                    .collect();
                if self.stage == ChooserStage::OtherNodes {
                    self.rotate_by_node(self.queue.len());
                }
            }
            ChooserStage::NewBlocks => {
                self.queue_next_blocks(draft, |granule| granule.is_none_or(|granule| granule.is_claimable()));
            }
            // One's own too: another pool of the batch may have taken it since the first stage.
            ChooserStage::SharedBlocks => {
                let node = self.node;
                let open = |granule: BlockSummary<'_>| granule.node.is_none_or(|holder| holder == node);
                self.queue_next_blocks(draft, |granule| granule.is_none_or(open));
            }
        }
        self.searched = true;
        !self.queue.is_empty()
    }

    /// Queues the next granules of the pool that are `wanted` and have something free, at first from the lowest
    /// on.
    fn queue_next_blocks(
        &mut self,
        draft: &BlockDraft<'_>,
        wanted: impl Fn(Option<BlockSummary<'_>>) -> bool,
    ) {
        // A node that lost a race looks at more of them and starts elsewhere than its rivals. The first try takes
        // the lowest, so a quiet pool fills from its beginning as people expect.
        let window = 4usize.pow(self.attempt.min(5));
        let skip = usize::from(self.cursor.is_some());
        let space = self.pool.space();
        let found = self
            .pool
            .blocks_from(self.cursor)
            .skip(skip)
            .map(|first| IpBlockId { space: space.clone(), first })
            .filter(|id| wanted(draft.summary(id)) && draft.free_offset(self.pool, id).is_some())
            .take(window);
        self.queue = found.collect();
        if let Some(last) = self.queue.back() {
            self.cursor = Some(last.first);
        }
        if !self.searched {
            self.rotate_by_node(window);
        }
    }

    /// Starts at another place within the first `window` for each node and attempt.
    fn rotate_by_node(&mut self, window: usize) {
        let window = window.min(self.queue.len());
        if self.attempt > 0 && window > 1 {
            let seed = self.node.bytes().chain(self.attempt.to_le_bytes());
            let hash = seed.fold(0xcbf29ce484222325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
            });
            self.queue.rotate_left((hash % window as u64) as usize);
        }
    }
}
