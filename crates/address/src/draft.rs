//! The view as it would be after the writes planned so far.

use crate::batch::BlockWrite;
use crate::block::{AddressAllocation, AllocationOwner, IpBlock, IpBlockId};
use crate::block_view::{BlockSummary, BlockView};
use crate::pool::AddressPool;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Changes over a view, not yet made.
pub(crate) struct BlockDraft<'a> {
    view: &'a BlockView,
    changed: BTreeMap<IpBlockId, IpBlock>,
    /// What each change since the last [`Draft::keep`] replaced, newest last.
    undo: Vec<(IpBlockId, Option<IpBlock>)>,
}

impl<'a> BlockDraft<'a> {
    pub(crate) fn new(view: &'a BlockView) -> Self {
        Self { view, changed: BTreeMap::new(), undo: Vec::new() }
    }

    /// The granules that `pool` has addresses in and that exist, or will.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        let (low, high) = pool.block_span();
        let made = self.changed.range(low..=high).filter(|(id, _)| self.view.version(id).is_none());
        let made = made
            .filter(|(id, _)| pool.has_keepable_in(id.first))
            .map(|(id, granule)| BlockSummary::new(id, granule));
        let known = self.view.summaries_of(pool).map(|known| match self.changed.get_key_value(known.id) {
            Some((id, granule)) => BlockSummary::new(id, granule),
            None => known,
        });
        known.chain(made)
    }

    pub(crate) fn get(&self, id: &IpBlockId) -> Option<Cow<'_, IpBlock>> {
        let changed = self.changed.get(id).map(Cow::Borrowed);
        changed.or_else(|| self.view.get(id).map(|(granule, _)| granule))
    }

    /// What can be seen of a granule at once.
    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        let changed = self.changed.get_key_value(id).map(|(id, granule)| BlockSummary::new(id, granule));
        changed.or_else(|| self.view.summary(id))
    }

    /// The addresses of the granule that `pool` offers and nobody has, as bits.
    fn free_offsets(&self, pool: &AddressPool, id: &IpBlockId) -> u16 {
        let taken = self.summary(id).map_or(0, |granule| granule.assigned_offsets);
        pool.offered_offsets(id.first) & !taken & !self.view.lost_offsets(id)
    }

    /// The lowest of them.
    pub(crate) fn free_offset(&self, pool: &AddressPool, id: &IpBlockId) -> Option<u8> {
        let free = self.free_offsets(pool, id);
        (free != 0).then(|| free.trailing_zeros() as u8)
    }

    /// Where the owner's last address of the pool is, if it is still free.
    pub(crate) fn last_released_by(
        &self,
        owner: &AllocationOwner,
        pool: &AddressPool,
    ) -> Option<(IpBlockId, u8)> {
        let (id, offset) = IpBlockId::containing(pool.space(), self.view.last_released_by(owner, pool)?);
        (self.free_offsets(pool, &id) >> offset & 1 != 0).then_some((id, offset))
    }

    /// Puts an entry, or nothing, at an offset; a granule that does not exist yet is made with `holder`. One
    /// that nobody holds and nobody uses goes to `holder` too.
    pub(crate) fn set(
        &mut self,
        id: &IpBlockId,
        offset: u8,
        entry: Option<AddressAllocation>,
        holder: Option<&str>,
    ) {
        let present = self.get(id);
        if present.as_ref().and_then(|granule| granule.entries.get(&offset)) == entry.as_ref() {
            return;
        }
        let mut granule = match present {
            Some(granule) => granule.into_owned(),
            None => IpBlock::new(id.clone(), holder.map(str::to_owned)),
        };
        let before = self.changed.get(id).cloned();
        if granule.node.is_none() && granule.entries.is_empty() {
            granule.node = holder.map(str::to_owned);
        }
        match entry {
            Some(entry) => granule.entries.insert(offset, entry),
            None => granule.entries.remove(&offset),
        };
        self.undo.push((id.clone(), before));
        self.changed.insert(id.clone(), granule);
    }

    /// Accepts the changes made so far.
    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    /// Takes the changes since the last [`Draft::keep`] back.
    pub(crate) fn rollback(&mut self) {
        for (id, before) in self.undo.drain(..).rev() {
            match before {
                Some(granule) => self.changed.insert(id, granule),
                None => self.changed.remove(&id),
            };
        }
    }

    /// The writes that make it so, one per granule, and where in them each granule stands.
    pub(crate) fn into_writes(self) -> (Vec<BlockWrite>, BTreeMap<IpBlockId, usize>) {
        let mut writes = Vec::with_capacity(self.changed.len());
        let mut positions = BTreeMap::new();
        for (id, granule) in self.changed {
            let write = match self.view.version(&id) {
                Some(version) => BlockWrite::Replace { block: granule, expected: version.clone() },
                None => BlockWrite::Create(granule),
            };
            positions.insert(id, writes.len());
            writes.push(write);
        }
        (writes, positions)
    }
}
