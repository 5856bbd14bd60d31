//! What an API server has forgotten.
//!
//! A restore of etcd turns granules back: versions that were seen are older again, entries that stood there are gone while
//! the pods that have the addresses run on. Their nodes write them down again from their journals, before they assign
//! anything new. Until then every node that knew them leaves them alone:
//!
//! ```text
//! known: A.1 of n1, A.2 of n2 ── list turns back ──▶ A.1, A.2 are Forgotten: given to nobody
//!                                                      │ an entry stands there again           ──▶ known
//!                                                      │ its node assigns something new,
//!                                                      └ so it has asserted what lives there   ──▶ free
//! ```

use crate::block::{IpBlock, IpBlockId};
use std::collections::BTreeMap;

/// Addresses that stood in granules before a restore, and on which nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostAllocations(BTreeMap<IpBlockId, BTreeMap<u8, Box<str>>>);

impl LostAllocations {
    /// The entries of `before` that `now` does not have.
    pub(crate) fn add(&mut self, before: &IpBlock, now: u16) {
        let lost =
            before.entries.iter().filter(|(offset, entry)| now >> **offset & 1 == 0 && !entry.is_reserved());
        let lost: Vec<_> = lost.map(|(offset, entry)| (*offset, Box::from(entry.node.as_str()))).collect();
        if !lost.is_empty() {
            self.0.entry(before.id()).or_default().extend(lost);
        }
    }

    /// Whose they are in one granule, as bits.
    pub(crate) fn offsets(&self, id: &IpBlockId) -> u16 {
        let offsets = self.0.get(id).into_iter().flat_map(BTreeMap::keys);
        offsets.fold(0, |bits, offset| bits | 1 << offset)
    }

    /// A granule was seen.
    pub(crate) fn observe(&mut self, granule: &IpBlock, before: u16) {
        if self.0.is_empty() {
            return;
        }
        let id = granule.id();
        let mut asserted = Vec::new();
        for (offset, entry) in &granule.entries {
            let forgotten = self.0.get_mut(&id).is_some_and(|lost| lost.remove(offset).is_some());
            if !forgotten && before >> offset & 1 == 0 {
                asserted.push(entry.node.as_str());
            }
        }
        for node in asserted {
            self.clear_node(node);
        }
        self.0.retain(|_, lost| !lost.is_empty());
    }

    /// What lived on the node is written down again: the rest is free.
    pub(crate) fn clear_node(&mut self, node: &str) {
        for lost in self.0.values_mut() {
            lost.retain(|_, of| **of != *node);
        }
        self.0.retain(|_, lost| !lost.is_empty());
    }

    /// One address is about to be written down again.
    pub(crate) fn clear(&mut self, id: &IpBlockId, offset: u8) {
        if let Some(lost) = self.0.get_mut(id) {
            lost.remove(&offset);
        }
    }
}
