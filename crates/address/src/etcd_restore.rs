//! Allocations lost by an etcd restore.
//!
//! An etcd restore rolls blocks back: resource versions decrease, and allocations of running pods disappear. Each node
//! writes the allocations of its pods again from its journals before it assigns new addresses. Until then, every node
//! that had cached the lost allocations does not assign their addresses:
//!
//! ```text
//! cached: A.1 of n1, A.2 of n2 ── list with older versions ──▶ A.1, A.2 lost: not assignable
//!                                                                │ the allocation is written again   ──▶ assigned
//!                                                                │ its node writes a new allocation,
//!                                                                └ so it has restored its own first  ──▶ free
//! ```

use crate::block::{IpBlock, IpBlockId};
use std::collections::BTreeMap;

/// Lost allocations by block and offset, with the node of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostAllocations(BTreeMap<IpBlockId, BTreeMap<u8, Box<str>>>);

impl LostAllocations {
    /// Adds the allocations of block `before` whose offsets are not in the bit mask `now`. Reserved addresses
    /// are not added, because no sandbox uses them.
    pub(crate) fn add(&mut self, before: &IpBlock, now: u16) {
        let lost =
            before.entries.iter().filter(|(offset, entry)| now >> **offset & 1 == 0 && !entry.is_reserved());
        let lost: Vec<_> = lost.map(|(offset, entry)| (*offset, Box::from(entry.node.as_str()))).collect();
        if !lost.is_empty() {
            self.0.entry(before.id()).or_default().extend(lost);
        }
    }

    /// Returns the lost offsets of a block as a bit mask.
    pub(crate) fn offsets(&self, id: &IpBlockId) -> u16 {
        let offsets = self.0.get(id).into_iter().flat_map(BTreeMap::keys);
        offsets.fold(0, |bits, offset| bits | 1 << offset)
    }

    /// Updates the lost allocations from a newly observed block. `before` is the bit mask of the offsets that
    /// were assigned in the block until now. A node restores its lost allocations before it writes a new one,
    /// so the lost allocations of a node with a new allocation are cleared.
    pub(crate) fn observe(&mut self, block: &IpBlock, before: u16) {
        if self.0.is_empty() {
            return;
        }
        let id = block.id();
        let mut restored_nodes = Vec::new();
        for (offset, entry) in &block.entries {
            let was_lost = self.0.get_mut(&id).is_some_and(|lost| lost.remove(offset).is_some());
            if !was_lost && before >> offset & 1 == 0 {
                restored_nodes.push(entry.node.as_str());
            }
        }
        for node in restored_nodes {
            self.clear_node(node);
        }
        self.0.retain(|_, lost| !lost.is_empty());
    }

    /// Removes the lost allocations of a node that has restored those that it still needs. Their addresses become
    /// free.
    pub(crate) fn clear_node(&mut self, node: &str) {
        for lost in self.0.values_mut() {
            lost.retain(|_, lost_node| **lost_node != *node);
        }
        self.0.retain(|_, lost| !lost.is_empty());
    }

    /// Removes one lost allocation, because its node is about to write it again.
    pub(crate) fn clear(&mut self, id: &IpBlockId, offset: u8) {
        if let Some(lost) = self.0.get_mut(id) {
            lost.remove(&offset);
        }
    }
}
