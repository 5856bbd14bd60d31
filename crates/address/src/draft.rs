//! Planned block changes on top of a [`BlockView`].

use crate::batch::{BlockAddition, BlockWrite};
use crate::block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId};
use crate::block_view::{BlockSummary, BlockView};
use crate::error::AddressHolder;
use crate::pool::AddressPool;
use std::collections::BTreeMap;

/// A [`BlockView`] with planned changes that are not written yet.
pub(crate) struct BlockDraft<'a> {
    view: &'a BlockView,
    node: &'a str,
    changed: BTreeMap<IpBlockId, IpBlock>,
    /// For each change since the last [`Self::commit`], the block and its planned state before the change.
    /// The state is `None` if the block had no planned change.
    undo: Vec<(IpBlockId, Option<IpBlock>)>,
}

impl<'a> BlockDraft<'a> {
    pub(crate) fn new(view: &'a BlockView, node: &'a str) -> Self {
        Self { view, node, changed: BTreeMap::new(), undo: Vec::new() }
    }

    /// Returns summaries of the existing and planned blocks that contain addresses of `pool`.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        let (low, high) = pool.block_span();
        let created = self.changed.range(low..=high).filter(|(id, _)| self.view.summary(id).is_none());
        let created = created
            .filter(|(id, _)| pool.has_keepable_in(id.first))
            .map(|(id, block)| BlockSummary::new(id, block));
        let known = self.view.summaries_of(pool).map(|known| self.summary(known.id).unwrap_or(known));
        known.chain(created)
    }

    /// Returns a block that is known in full or has planned changes.
    pub(crate) fn get(&self, id: &IpBlockId) -> Option<&IpBlock> {
        self.changed.get(id).or_else(|| self.view.get(id).map(|(block, _)| block))
    }

    /// Returns the summary of a block, including planned changes.
    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        let known = self.view.summary(id);
        let Some((id, block)) = self.changed.get_key_value(id) else { return known };
        let planned = BlockSummary::new(id, block);
        // The planned state of a block that is not known in full has only the additions.
        Some(match known {
            Some(known) if self.view.get(id).is_none() => BlockSummary {
                node: planned.node.or(known.node),
                assigned_offsets: planned.assigned_offsets | known.assigned_offsets,
                used: planned.used.saturating_add(known.used),
                ..planned
            },
            _ => planned,
        })
    }

    /// Whether other nodes have taken addresses of the pool that this node chose.
    pub(crate) fn is_contended(&self, pool: &AddressPool) -> bool {
        self.view.is_contended(pool)
    }

    /// Whether `node` has claimed the block or has an entry in it, including planned changes.
    pub(crate) fn is_used_by(&self, node: &str, id: &IpBlockId) -> bool {
        self.get(id).is_some_and(|block| block.is_used_by(node))
    }

    /// Returns, as a bit mask, the offsets in the block that `pool` offers and that are free.
    fn free_offsets(&self, pool: &AddressPool, id: &IpBlockId) -> u16 {
        let taken = self.summary(id).map_or(0, |block| block.assigned_offsets);
        if self.view.is_unreadable(id) {
            return 0;
        }
        pool.offered_offsets(id.first) & !taken
    }

    /// Returns a pod that has an address of a block that is not known in full.
    pub(crate) fn hinted_holder(&self, id: &IpBlockId) -> Option<&AddressHolder> {
        self.view.hinted_holder(id)
    }

    /// Returns which blocks cannot be read, for the error if a pool has no free address.
    pub(crate) fn unreadable_notice(&self) -> Option<String> {
        self.view.unreadable_notice()
    }

    /// Returns the first offset in the block, counted from `start` and around the end, that `pool` offers and that is not
    /// known to be assigned.
    pub(crate) fn free_offset(&self, pool: &AddressPool, id: &IpBlockId, start: u8) -> Option<u8> {
        let free = self.free_offsets(pool, id).rotate_right(start.into());
        (free != 0).then(|| (free.trailing_zeros() as u8 + start) % IP_BLOCK_SIZE)
    }

    /// Returns the block and offset of the address of `pool` that `owner` released last, if it is still free.
    pub(crate) fn last_released_by(
        &self,
        owner: &AllocationOwner,
        pool: &AddressPool,
    ) -> Option<(IpBlockId, u8)> {
        let (id, offset) = IpBlockId::containing(pool.space(), self.view.last_released_by(owner, pool)?);
        (self.free_offsets(pool, &id) >> offset & 1 != 0).then_some((id, offset))
    }

    /// Sets or clears the allocation at an offset. A block that is not known is created. A block that no node has claimed
    /// is claimed by `holder`.
    pub(crate) fn set(
        &mut self,
        id: &IpBlockId,
        offset: u8,
        entry: Option<AddressAllocation>,
        holder: Option<&str>,
    ) {
        let present = self.get(id);
        if present.as_ref().and_then(|block| block.entries.get(&offset)) == entry.as_ref() {
            return;
        }
        let mut block = present.cloned().unwrap_or_else(|| IpBlock::new(id.clone(), None));
        let before = self.changed.get(id).cloned();
        if block.node.is_none() {
            block.node = holder.map(str::to_owned);
        }
        match entry {
            Some(entry) => block.entries.insert(offset, entry),
            None => block.entries.remove(&offset),
        };
        self.undo.push((id.clone(), before));
        self.changed.insert(id.clone(), block);
    }

    /// Keeps the changes so far, so that [`Self::rollback`] does not revert them.
    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    /// Reverts the changes since the last [`Self::commit`].
    pub(crate) fn rollback(&mut self) {
        for (id, before) in self.undo.drain(..).rev() {
            match before {
                Some(block) => self.changed.insert(id, block),
                None => self.changed.remove(&id),
            };
        }
    }

    /// Returns one write for each changed block, and by block the index of its write.
    pub(crate) fn into_writes(self) -> (Vec<BlockWrite>, BTreeMap<IpBlockId, usize>) {
        let mut writes = Vec::with_capacity(self.changed.len());
        let mut positions = BTreeMap::new();
        for (id, block) in self.changed {
            let write = match self.view.get(&id) {
                Some((known, version)) if must_replace(known, &block, self.node) => {
                    BlockWrite::Replace { block, expected: version.clone() }
                }
                known => BlockWrite::Add(addition(known.map(|(known, _)| known), block, self.node)),
            };
            positions.insert(id, writes.len());
            writes.push(write);
        }
        (writes, positions)
    }
}

/// Whether `block` is written at the version that is known. Nobody else is expected to write to a block that the node has
/// claimed, and this is the cheapest write. The leader may have deleted a block without entries.
fn must_replace(known: &IpBlock, block: &IpBlock, node: &str) -> bool {
    let own = known.node.as_deref() == Some(node) && !known.entries.is_empty();
    own || !only_adds(known, block)
}

/// Whether `block` has all entries of `known` unchanged, so that entries can be added without a version.
fn only_adds(known: &IpBlock, block: &IpBlock) -> bool {
    known.entries.iter().all(|(offset, entry)| block.entries.get(offset) == Some(entry))
}

/// Returns the entries of `block` that `known` does not have. A claim of `node` is repeated, because the block may have
/// been deleted when it was empty.
fn addition(known: Option<&IpBlock>, block: IpBlock, node: &str) -> BlockAddition {
    let id = block.id();
    let is_new = |offset: &u8| known.is_none_or(|known| !known.entries.contains_key(offset));
    let entries = block.entries.into_iter().filter(|(offset, _)| is_new(offset)).collect();
    let exists = known.is_some_and(|known| !known.entries.is_empty());
    BlockAddition { id, holder: block.node.filter(|holder| holder == node), entries, exists }
}
