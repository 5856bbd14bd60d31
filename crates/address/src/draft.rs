//! Planned block changes on top of a [`BlockView`].

use crate::batch::BlockWrite;
use crate::block::{AddressAllocation, AllocationOwner, IpBlock, IpBlockId};
use crate::block_view::{BlockSummary, BlockView};
use crate::pool::AddressPool;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A [`BlockView`] with planned changes that are not written yet.
pub(crate) struct BlockDraft<'a> {
    view: &'a BlockView,
    changed: BTreeMap<IpBlockId, IpBlock>,
    /// For each change since the last [`Self::commit`], the block and its planned state before the change.
    /// The state is `None` if the block had no planned change.
    undo: Vec<(IpBlockId, Option<IpBlock>)>,
}

impl<'a> BlockDraft<'a> {
    pub(crate) fn new(view: &'a BlockView) -> Self {
        Self { view, changed: BTreeMap::new(), undo: Vec::new() }
    }

    /// Returns summaries of the existing and planned blocks that contain addresses of `pool`.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        let (low, high) = pool.block_span();
        let created = self.changed.range(low..=high).filter(|(id, _)| self.view.version(id).is_none());
        let created = created
            .filter(|(id, _)| pool.has_keepable_in(id.first))
            .map(|(id, block)| BlockSummary::new(id, block));
        let cached = self.view.summaries_of(pool).map(|cached| match self.changed.get_key_value(cached.id) {
            Some((id, block)) => BlockSummary::new(id, block),
            None => cached,
        });
        cached.chain(created)
    }

    pub(crate) fn get(&self, id: &IpBlockId) -> Option<Cow<'_, IpBlock>> {
        let changed = self.changed.get(id).map(Cow::Borrowed);
        changed.or_else(|| self.view.get(id).map(|(block, _)| block))
    }

    /// Returns the summary of a block, including planned changes.
    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        let changed = self.changed.get_key_value(id).map(|(id, block)| BlockSummary::new(id, block));
        changed.or_else(|| self.view.summary(id))
    }

    /// Returns, as a bit mask, the offsets in the block that `pool` offers and that are free.
    fn free_offsets(&self, pool: &AddressPool, id: &IpBlockId) -> u16 {
        let taken = self.summary(id).map_or(0, |block| block.assigned_offsets);
        let withheld = if self.view.is_unreadable(id) { u16::MAX } else { self.view.lost_offsets(id) };
        pool.offered_offsets(id.first) & !taken & !withheld
    }

    /// Returns which blocks cannot be read, for the error if a pool has no free address.
    pub(crate) fn unreadable_notice(&self) -> Option<String> {
        self.view.unreadable_notice()
    }

    /// Returns the lowest offset in the block that `pool` offers and that is free.
    pub(crate) fn free_offset(&self, pool: &AddressPool, id: &IpBlockId) -> Option<u8> {
        let free = self.free_offsets(pool, id);
        (free != 0).then(|| free.trailing_zeros() as u8)
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

    /// Sets or clears the allocation at an offset. A missing block is created. A new or unused block that no node has
    /// claimed is claimed by `holder`.
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
        let mut block = match present {
            Some(block) => block.into_owned(),
            None => IpBlock::new(id.clone(), holder.map(str::to_owned)),
        };
        let before = self.changed.get(id).cloned();
        if block.node.is_none() && block.entries.is_empty() {
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
            let write = match self.view.version(&id) {
                Some(version) => BlockWrite::Replace { block, expected: version.clone() },
                None => BlockWrite::Create(block),
            };
            positions.insert(id, writes.len());
            writes.push(write);
        }
        (writes, positions)
    }
}
