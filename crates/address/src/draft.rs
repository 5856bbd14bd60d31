//! The view as it would be after the writes planned so far.

use crate::batch::Write;
use crate::granule::{Entry, Granule, GranuleId, Owner};
use crate::pool::Pool;
use crate::view::{Outline, View};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Changes over a view, not yet made.
pub(crate) struct Draft<'a> {
    view: &'a View,
    changed: BTreeMap<GranuleId, Granule>,
    /// What each change since the last [`Draft::keep`] replaced, newest last.
    undo: Vec<(GranuleId, Option<Granule>)>,
}

impl<'a> Draft<'a> {
    pub(crate) fn over(view: &'a View) -> Self {
        Self { view, changed: BTreeMap::new(), undo: Vec::new() }
    }

    /// The granules that `pool` has addresses in and that exist, or will.
    pub(crate) fn of(&self, pool: &Pool) -> impl Iterator<Item = Outline<'_>> {
        let (low, high) = pool.span();
        let made = self.changed.range(low..=high).filter(|(id, _)| self.view.version(id).is_none());
        let made =
            made.filter(|(id, _)| pool.reaches(id.first)).map(|(id, granule)| Outline::of(id, granule));
        let known = self.view.of(pool).map(|known| match self.changed.get_key_value(known.id) {
            Some((id, granule)) => Outline::of(id, granule),
            None => known,
        });
        known.chain(made)
    }

    pub(crate) fn get(&self, id: &GranuleId) -> Option<Cow<'_, Granule>> {
        let changed = self.changed.get(id).map(Cow::Borrowed);
        changed.or_else(|| self.view.get(id).map(|(granule, _)| granule))
    }

    /// What can be seen of a granule at once.
    pub(crate) fn outline(&self, id: &GranuleId) -> Option<Outline<'_>> {
        let changed = self.changed.get_key_value(id).map(|(id, granule)| Outline::of(id, granule));
        changed.or_else(|| self.view.outline(id))
    }

    /// The addresses of the granule that `pool` offers and nobody has, as bits.
    fn free(&self, pool: &Pool, id: &GranuleId) -> u16 {
        let taken = self.outline(id).map_or(0, |granule| granule.occupied);
        pool.offered(id.first) & !taken & !self.view.forgotten(id)
    }

    /// The lowest of them.
    pub(crate) fn free_offset(&self, pool: &Pool, id: &GranuleId) -> Option<u8> {
        let free = self.free(pool, id);
        (free != 0).then(|| free.trailing_zeros() as u8)
    }

    /// Where the owner's last address of the pool is, if it is still free.
    pub(crate) fn left_by(&self, owner: &Owner, pool: &Pool) -> Option<(GranuleId, u8)> {
        let (id, offset) = GranuleId::containing(pool.space(), self.view.left_by(owner, pool)?);
        (self.free(pool, &id) >> offset & 1 != 0).then_some((id, offset))
    }

    /// Puts an entry, or nothing, at an offset; a granule that does not exist yet is made with `holder`. One
    /// that nobody holds and nobody uses goes to `holder` too.
    pub(crate) fn set(&mut self, id: &GranuleId, offset: u8, entry: Option<Entry>, holder: Option<&str>) {
        let present = self.get(id);
        if present.as_ref().and_then(|granule| granule.entries.get(&offset)) == entry.as_ref() {
            return;
        }
        let mut granule = match present {
            Some(granule) => granule.into_owned(),
            None => Granule::new(id.clone(), holder.map(str::to_owned)),
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
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes the changes since the last [`Draft::keep`] back.
    pub(crate) fn discard(&mut self) {
        for (id, before) in self.undo.drain(..).rev() {
            match before {
                Some(granule) => self.changed.insert(id, granule),
                None => self.changed.remove(&id),
            };
        }
    }

    /// The writes that make it so, one per granule, and where in them each granule stands.
    pub(crate) fn writes(self) -> (Vec<Write>, BTreeMap<GranuleId, usize>) {
        let mut writes = Vec::with_capacity(self.changed.len());
        let mut positions = BTreeMap::new();
        for (id, granule) in self.changed {
            let write = match self.view.version(&id) {
                Some(version) => Write::Replace { granule, expected: version.clone() },
                None => Write::Create(granule),
            };
            positions.insert(id, writes.len());
            writes.push(write);
        }
        (writes, positions)
    }
}
