//! What a node knows about the address blocks.
//!
//! A node knows its own blocks in full: those that it has claimed or has entries in. Of other blocks it knows at most a
//! summary, from the index of the space, from a list or from an earlier read. Of most blocks it knows nothing, and a block
//! that is not in the view may exist. Nothing here decides whether an address is free: a write does.

use crate::block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId};
use crate::block_index::IndexedBlock;
use crate::error::AddressHolder;
use crate::ip_space::IpSpace;
use crate::labels::BlockScope;
use crate::pool::AddressPool;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Number of recently released addresses that are remembered with their owners.
const MAX_REMEMBERED_RELEASES: usize = 128;

/// Number of assignments from a pool without a conflict after which the pool no longer counts as contended.
const CONTENDED_ASSIGNMENTS: u32 = 64;

/// Holder of a block in a [`BlockSummary`] if another node has claimed it and its name is not known.
const UNKNOWN_NODE: &str = "";

/// `metadata.resourceVersion` of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceVersion(pub String);

/// The blocks that a node knows. The view may be stale: a write that does not fit the stored block conflicts.
#[derive(Clone, Debug, Default)]
pub struct BlockView {
    /// Blocks in full.
    blocks: BTreeMap<IpBlockId, (IpBlock, ResourceVersion)>,
    /// Other blocks.
    hints: BTreeMap<IpBlockId, BlockHint>,
    /// Recently released addresses with their owners, latest last.
    released: VecDeque<(IpSpace, IpAddr, AllocationOwner)>,
    /// Object names of the blocks that exist but cannot be read. Their free addresses are unknown.
    unreadable: BTreeSet<String>,
    /// Pools of which another node took an address that this node had chosen, by space and name, with the number of
    /// assignments until this is forgotten.
    contended: BTreeMap<(IpSpace, String), u32>,
}

/// What is known about a block that is not known in full.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockHint {
    /// Bit mask of the addresses that are certainly assigned.
    assigned_offsets: u16,
    /// Number of assigned addresses. It is larger than the number of bits if the index named no addresses.
    used: u8,
    held: bool,
    /// Whether the offsets are from the block itself. The index names only full blocks.
    exact: bool,
    /// A pod that has an address of the block, for error messages.
    holder: Option<Box<AddressHolder>>,
}

impl BlockHint {
    fn of(block: &IpBlock) -> Self {
        let holder = block.entries.iter().next().map(|(offset, entry)| {
            let (pod, node) = (entry.pod.clone(), entry.node.clone());
            Box::new(AddressHolder { address: block.address(*offset), pod, node })
        });
        let assigned_offsets = block.assigned_offsets();
        Self { assigned_offsets, used: block.used(), held: block.node.is_some(), exact: true, holder }
    }

    fn indexed(indexed: &IndexedBlock) -> Self {
        let assigned_offsets = if indexed.used >= IP_BLOCK_SIZE { u16::MAX } else { 0 };
        Self { assigned_offsets, used: indexed.used, held: indexed.held, exact: false, holder: None }
    }
}

/// The properties of a block that are needed to choose an address.
#[derive(Clone, Copy, Debug)]
pub struct BlockSummary<'a> {
    pub id: &'a IpBlockId,
    /// Node that has claimed the block; empty if another node has and its name is not known.
    pub node: Option<&'a str>,
    /// Bit mask of the assigned addresses: bit n stands for the address at offset n.
    pub assigned_offsets: u16,
    /// Number of assigned addresses, which may be larger than the number of bits.
    pub(crate) used: u8,
}

impl<'a> BlockSummary<'a> {
    pub(crate) fn new(id: &'a IpBlockId, block: &'a IpBlock) -> Self {
        let assigned_offsets = block.assigned_offsets();
        Self { id, node: block.node.as_deref(), assigned_offsets, used: block.used() }
    }

    fn hint(id: &'a IpBlockId, hint: &BlockHint) -> Self {
        let node = hint.held.then_some(UNKNOWN_NODE);
        Self { id, node, assigned_offsets: hint.assigned_offsets, used: hint.used }
    }

    /// Whether no node has claimed the block and none of its addresses is assigned.
    pub(crate) fn is_claimable(&self) -> bool {
        self.node.is_none() && self.used == 0
    }

    pub fn assigned_addresses(self) -> impl Iterator<Item = IpAddr> + 'a {
        (0..IP_BLOCK_SIZE)
            .filter(move |offset| self.assigned_offsets >> offset & 1 != 0)
            .map(|offset| self.id.address(offset))
    }
}

impl BlockView {
    /// Stores a block that the API server returned for a read or a write.
    pub fn observe(&mut self, block: IpBlock, version: ResourceVersion) {
        let id = block.id();
        self.note_readable(&id);
        self.hints.remove(&id);
        self.blocks.insert(id, (block, version));
    }

    /// Replaces a block that is known in full for as long as a plan is made.
    pub(crate) fn stage(&mut self, block: IpBlock, version: ResourceVersion) {
        self.blocks.insert(block.id(), (block, version));
    }

    /// Removes a block whose object does not exist.
    pub fn remove(&mut self, id: &IpBlockId) {
        self.blocks.remove(id);
        self.hints.remove(id);
        self.note_readable(id);
    }

    /// Replaces the blocks known in full by `blocks`, all blocks with the label of the node.
    pub(crate) fn replace_own(
        &mut self,
        blocks: Vec<(IpBlock, ResourceVersion)>,
        unreadable: impl IntoIterator<Item = String>,
    ) {
        self.blocks.clear();
        for (block, version) in blocks {
            self.observe(block, version);
        }
        self.unreadable.extend(unreadable);
    }

    /// Replaces what is known about the blocks of a scope by the result of a list. Blocks that are not in the list do
    /// not exist. Blocks that `node` does not use are stored as summaries.
    pub(crate) fn replace_scope(
        &mut self,
        scope: &BlockScope,
        node: &str,
        blocks: Vec<(IpBlock, ResourceVersion)>,
        unreadable: impl IntoIterator<Item = String>,
    ) {
        self.blocks.retain(|id, _| !scope.covers(id));
        self.hints.retain(|id, _| !scope.covers(id));
        for (block, version) in blocks {
            let id = block.id();
            self.note_readable(&id);
            match block.is_used_by(node) {
                true => drop(self.blocks.insert(id, (block, version))),
                false => drop(self.hints.insert(id, BlockHint::of(&block))),
            }
        }
        self.unreadable.extend(unreadable);
    }

    /// Replaces the summaries of a space by its index. Blocks that are known in full stay.
    pub(crate) fn replace_index(&mut self, space: &IpSpace, index: &[IndexedBlock]) {
        self.hints.retain(|id, _| id.space != *space);
        for indexed in index {
            let (id, offset) = IpBlockId::containing(space, indexed.first);
            if offset == 0 && !self.blocks.contains_key(&id) {
                self.hints.insert(id, BlockHint::indexed(indexed));
            }
        }
    }

    /// Reduces the blocks that `node` does not use to summaries.
    pub(crate) fn summarize_others(&mut self, node: &str) {
        let others = self.blocks.extract_if(.., |_, (block, _)| !block.is_used_by(node));
        self.hints.extend(others.map(|(id, (block, _))| (id, BlockHint::of(&block))));
    }

    /// Records that the object `name` exists but cannot be read. Its addresses are not assigned until it is observed.
    pub fn mark_unreadable(&mut self, name: String) {
        self.unreadable.insert(name);
    }

    fn note_readable(&mut self, id: &IpBlockId) {
        if !self.unreadable.is_empty() {
            self.unreadable.remove(&id.object_name());
        }
    }

    pub(crate) fn is_unreadable(&self, id: &IpBlockId) -> bool {
        !self.unreadable.is_empty() && self.unreadable.contains(&id.object_name())
    }

    pub(crate) fn unreadable_notice(&self) -> Option<String> {
        let names: Vec<_> = self.unreadable.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("cannot read AddressBlock {}", names.join(", ")))
    }

    /// Records whether a write that takes an address of `pool` conflicted.
    pub(crate) fn note_assignment(&mut self, pool: &AddressPool, conflict: bool) {
        let key = (pool.space().clone(), pool.name().to_owned());
        if conflict {
            self.contended.insert(key, CONTENDED_ASSIGNMENTS);
        } else if let Some(left) = self.contended.get_mut(&key) {
            *left -= 1;
            if *left == 0 {
                self.contended.remove(&key);
            }
        }
    }

    pub(crate) fn is_contended(&self, pool: &AddressPool) -> bool {
        !self.contended.is_empty()
            && self.contended.contains_key(&(pool.space().clone(), pool.name().to_owned()))
    }

    /// Remembers a released address. If the sandbox of a running pod is re-created, the pod gets the address
    /// again unless another pod has got it meanwhile.
    pub fn remember_released(&mut self, space: &IpSpace, address: IpAddr, entry: &AddressAllocation) {
        self.released
            .retain(|(known_space, known_address, _)| (known_space, *known_address) != (space, address));
        self.released.push_back((space.clone(), address, entry.owner(address)));
        if self.released.len() > MAX_REMEMBERED_RELEASES {
            self.released.pop_front();
        }
    }

    /// Returns the address of `pool` that `owner` released last.
    pub(crate) fn last_released_by(&self, owner: &AllocationOwner, pool: &AddressPool) -> Option<IpAddr> {
        let matches = |(space, address, released_by): &&(IpSpace, IpAddr, AllocationOwner)| {
            released_by == owner && space == pool.space() && pool.contains(*address)
        };
        self.released.iter().rev().find(matches).map(|(_, address, _)| *address)
    }

    /// Returns a block and its version, if it is known in full.
    pub fn get(&self, id: &IpBlockId) -> Option<(&IpBlock, &ResourceVersion)> {
        self.blocks.get(id).map(|(block, version)| (block, version))
    }

    /// Returns what is known about a block; `None` if nothing is.
    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        let full = self.blocks.get_key_value(id).map(|(id, (block, _))| BlockSummary::new(id, block));
        full.or_else(|| self.hints.get_key_value(id).map(|(id, hint)| BlockSummary::hint(id, hint)))
    }

    /// Whether the block had an entry for the address when it was last read or listed.
    pub fn is_assigned(&self, space: &IpSpace, address: IpAddr) -> bool {
        let (id, offset) = IpBlockId::containing(space, address);
        let full = self.blocks.get(&id).map(|(block, _)| block.assigned_offsets());
        let hint = || self.hints.get(&id).filter(|hint| hint.exact).map(|hint| hint.assigned_offsets);
        full.or_else(hint).is_some_and(|assigned| assigned >> offset & 1 != 0)
    }

    /// Returns the blocks that are known in full with their versions, ordered by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (&IpBlock, &ResourceVersion)> {
        self.blocks.values().map(|(block, version)| (block, version))
    }

    /// Returns the blocks that are known in full and in which owners may have addresses of `pool`.
    pub(crate) fn blocks_of(&self, pool: &AddressPool) -> impl Iterator<Item = (&IpBlockId, &IpBlock)> {
        let (low, high) = pool.block_span();
        let blocks = self.blocks.range(low..=high).map(|(id, (block, _))| (id, block));
        blocks.filter(|(id, _)| pool.has_keepable_in(id.first))
    }

    /// Returns summaries of the known blocks in which owners may have addresses of `pool`.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        let (low, high) = pool.block_span();
        let hints = self.hints.range(low..=high).filter(|(id, _)| pool.has_keepable_in(id.first));
        let full = self.blocks_of(pool).map(|(id, block)| BlockSummary::new(id, block));
        full.chain(hints.map(|(id, hint)| BlockSummary::hint(id, hint)))
    }

    /// Returns a pod that has an address of a block that is not known in full.
    pub(crate) fn hinted_holder(&self, id: &IpBlockId) -> Option<&AddressHolder> {
        self.hints.get(id)?.holder.as_deref()
    }
}

#[cfg(test)]
mod tests;
