//! A node's cached view of the address blocks.

use crate::block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId};
use crate::compact::CompactBlock;
use crate::etcd_restore::LostAllocations;
use crate::ip_space::IpSpace;
use crate::pool::AddressPool;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Number of recently released addresses that are remembered with their owners.
const MAX_REMEMBERED_RELEASES: usize = 128;

/// `metadata.resourceVersion` of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceVersion(pub String);

impl ResourceVersion {
    /// Whether this version is certainly older than `other`. Only decimal versions, as an API server with etcd
    /// returns, are ordered.
    fn is_older_than(&self, other: &Self) -> bool {
        match (self.0.parse::<u64>(), other.0.parse::<u64>()) {
            (Ok(own), Ok(other)) => own < other,
            _ => false,
        }
    }
}

/// The blocks that a node has cached. The view may be stale: every write carries the version it is based on, and the
/// API server rejects it if the object is newer. A default view belongs to no node and stores all blocks in full.
#[derive(Clone, Debug, Default)]
pub struct BlockView {
    blocks: BTreeMap<IpBlockId, (BlockViewEntry, ResourceVersion)>,
    /// Name of the node that owns this view. If it is set, blocks that only other nodes use are stored in
    /// compact form.
    node: Option<Box<str>>,
    /// Allocations that an etcd restore removed and that their nodes have not written again yet.
    lost: LostAllocations,
    /// Recently released addresses with their owners, latest last.
    released: VecDeque<(IpSpace, IpAddr, AllocationOwner)>,
    /// Object names of the blocks that exist but cannot be read. Their free addresses are unknown.
    unreadable: BTreeSet<String>,
}

/// A cached block, either in full or in the compact form for other nodes' blocks.
#[derive(Clone, Debug)]
enum BlockViewEntry {
    /// Boxed, so that map entries have the size of the compact form.
    Full(Box<IpBlock>),
    Compact(CompactBlock),
}

/// The properties of a block that are available without unpacking its compact form.
#[derive(Clone, Copy, Debug)]
pub struct BlockSummary<'a> {
    pub id: &'a IpBlockId,
    /// Node that has claimed the block.
    pub node: Option<&'a str>,
    /// Bit mask of the assigned addresses: bit n stands for the address at offset n.
    pub assigned_offsets: u16,
}

impl<'a> BlockSummary<'a> {
    pub(crate) fn new(id: &'a IpBlockId, block: &'a IpBlock) -> Self {
        Self { id, node: block.node.as_deref(), assigned_offsets: block.assigned_offsets() }
    }

    /// Whether no node has claimed the block and none of its addresses is assigned.
    pub(crate) fn is_claimable(&self) -> bool {
        self.node.is_none() && self.assigned_offsets == 0
    }

    pub fn assigned_addresses(self) -> impl Iterator<Item = IpAddr> + 'a {
        (0..IP_BLOCK_SIZE)
            .filter(move |offset| self.assigned_offsets >> offset & 1 != 0)
            .map(|offset| self.id.address(offset))
    }
}

impl BlockViewEntry {
    fn summary<'a>(&'a self, id: &'a IpBlockId) -> BlockSummary<'a> {
        match self {
            Self::Full(block) => BlockSummary::new(id, block),
            Self::Compact(compact) => {
                BlockSummary { id, node: compact.node.as_deref(), assigned_offsets: compact.assigned_offsets }
            }
        }
    }

    fn block(&self, id: &IpBlockId) -> Cow<'_, IpBlock> {
        match self {
            Self::Full(block) => Cow::Borrowed(block),
            Self::Compact(compact) => Cow::Owned(compact.unpack(id)),
        }
    }
}

impl BlockView {
    /// Creates an empty view for a node. Blocks that only other nodes use are stored in compact form.
    pub fn for_node(node: &str) -> Self {
        Self { node: Some(node.into()), ..Self::default() }
    }

    fn view_entry(&self, block: IpBlock) -> BlockViewEntry {
        let own = |node: &str| {
            block.node.as_deref() == Some(node) || block.entries.values().any(|entry| entry.node == node)
        };
        match &self.node {
            Some(node) if !block.entries.is_empty() && !own(node) => {
                BlockViewEntry::Compact(CompactBlock::pack(&block))
            }
            _ => BlockViewEntry::Full(Box::new(block)),
        }
    }

    /// Stores a block from a watch event or from the response to a write. Ignores a block that is older than the
    /// cached one, as delivered by a watch that lags behind the node's own writes.
    pub fn observe(&mut self, block: IpBlock, version: ResourceVersion) {
        match self.blocks.get(&block.id()) {
            Some((_, cached)) if version.is_older_than(cached) => {}
            _ => {
                let id = self.note_observed(&block);
                self.blocks.insert(id, (self.view_entry(block), version));
            }
        }
    }

    /// Stores a block that was read in order to write it, in full. It replaces the cached block whatever its version,
    /// because versions decrease after an etcd restore.
    pub fn refresh(&mut self, block: IpBlock, version: ResourceVersion) {
        let id = self.note_observed(&block);
        self.blocks.insert(id, (BlockViewEntry::Full(Box::new(block)), version));
    }

    fn note_observed(&mut self, block: &IpBlock) -> IpBlockId {
        let id = block.id();
        self.note_readable(&id);
        let before = self.summary(&id).map_or(0, |cached| cached.assigned_offsets);
        self.lost.observe(block, before);
        id
    }

    /// Whether a block is stored without pod UIDs and sandboxes, so that it must be read before it is written.
    pub fn is_compact(&self, id: &IpBlockId) -> bool {
        self.blocks.get(id).is_some_and(|(cached, _)| matches!(cached, BlockViewEntry::Compact(_)))
    }

    /// Removes a block whose object does not exist.
    pub fn remove(&mut self, id: &IpBlockId) {
        self.blocks.remove(id);
        self.note_readable(id);
    }

    /// Removes a block whose object was deleted at `version`. Ignores a deletion that is older than the cached block,
    /// as delivered by a watch that lags behind a new object of the same name. Returns whether the block was removed.
    pub fn remove_deleted(&mut self, id: &IpBlockId, version: &ResourceVersion) -> bool {
        let newer = self.version(id).is_some_and(|cached| version.is_older_than(cached));
        if !newer {
            self.remove(id);
        }
        !newer
    }

    /// Records that the object `name` exists but cannot be read. Its addresses are not assigned until it is observed.
    /// Returns whether this was not known before.
    pub fn mark_unreadable(&mut self, name: String) -> bool {
        self.unreadable.insert(name)
    }

    /// Records that the object `name` can be read, or does not exist.
    pub fn clear_unreadable(&mut self, name: &str) {
        self.unreadable.remove(name);
    }

    /// Records that of all existing objects only `names` cannot be read.
    pub fn replace_unreadable(&mut self, names: BTreeSet<String>) {
        self.unreadable = names;
    }

    fn note_readable(&mut self, id: &IpBlockId) {
        if !self.unreadable.is_empty() {
            self.clear_unreadable(&id.object_name());
        }
    }

    pub(crate) fn is_unreadable(&self, id: &IpBlockId) -> bool {
        !self.unreadable.is_empty() && self.unreadable.contains(&id.object_name())
    }

    pub(crate) fn unreadable_notice(&self) -> Option<String> {
        let names: Vec<_> = self.unreadable.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("cannot read AddressBlock {}", names.join(", ")))
    }

    /// Adds a block to `list`, the result of a list request, for [`Self::replace_all`]. If the view has
    /// already cached this version of the block, `list` refers to the cached block instead of storing it
    /// twice.
    pub fn add_to_list(&self, list: &mut BlockList, block: IpBlock, version: ResourceVersion) {
        let id = block.id();
        let same = self.blocks.get(&id).is_some_and(|(_, cached)| *cached == version);
        list.0.insert(id, (!same).then(|| (self.view_entry(block), version)));
    }

    /// Replaces all blocks by the result of a list request. Returns `true` if the API server lost data, as
    /// after an etcd restore: a version decreased, or a block with allocations of the own node is missing. In
    /// that case the missing allocations are kept as lost until their nodes have restored them. A block for
    /// which `fresher` returns `true` was written during the list request, so its difference from the result
    /// is not evidence of a restore.
    pub fn replace_all(&mut self, list: BlockList, fresher: impl Fn(&IpBlockId) -> bool) -> bool {
        let mut before = std::mem::take(&mut self.blocks);
        let own = |cached: &BlockViewEntry| match (cached, self.node.as_deref()) {
            (BlockViewEntry::Full(block), Some(node)) => {
                block.entries.values().any(|entry| entry.node == node)
            }
            _ => false,
        };
        let data_lost = before.iter().any(|(id, (cached, version))| match list.0.get(id) {
            _ if fresher(id) => false,
            Some(new) => new.as_ref().is_some_and(|(_, new)| new.is_older_than(version)),
            None => own(cached),
        });
        if data_lost {
            for (id, (cached, version)) in &before {
                let now = match list.0.get(id) {
                    Some(Some((now, new))) if new.is_older_than(version) => now.summary(id).assigned_offsets,
                    Some(_) => continue,
                    None => 0,
                };
                self.lost.add(&cached.block(id), now);
            }
        }
        let now = list.0.into_iter().filter_map(|(id, new)| {
            let cached = new.or_else(|| before.remove(&id))?;
            Some((id, cached))
        });
        self.blocks = now.collect();
        data_lost
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

    /// Returns, as a bit mask, the offsets of a block whose allocations an etcd restore lost. They are not assignable.
    pub(crate) fn lost_offsets(&self, id: &IpBlockId) -> u16 {
        self.lost.offsets(id)
    }

    /// Marks `address` as no longer lost, because its node is about to write it again.
    pub fn clear_lost(&mut self, space: &IpSpace, address: IpAddr) {
        let (id, offset) = IpBlockId::containing(space, address);
        self.lost.clear(&id, offset);
    }

    /// Marks all lost allocations of the own node as restored, because the node has written those that it still needs.
    pub fn clear_lost_on_own_node(&mut self) {
        if let Some(node) = &self.node {
            self.lost.clear_node(node);
        }
    }

    /// Returns a block and its version. A [compact](Self::is_compact) block lacks pod UIDs and sandboxes.
    pub fn get(&self, id: &IpBlockId) -> Option<(Cow<'_, IpBlock>, &ResourceVersion)> {
        self.blocks.get_key_value(id).map(|(id, (cached, version))| (cached.block(id), version))
    }

    pub fn version(&self, id: &IpBlockId) -> Option<&ResourceVersion> {
        self.blocks.get(id).map(|(_, version)| version)
    }

    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        self.blocks.get_key_value(id).map(|(id, (cached, _))| cached.summary(id))
    }

    /// Returns all blocks with their versions, ordered by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, IpBlock>, &ResourceVersion)> {
        self.blocks.iter().map(|(id, (cached, version))| (cached.block(id), version))
    }

    /// Returns the blocks stored in full. If the view belongs to a node, only these can have allocations of
    /// that node.
    pub fn full_blocks(&self) -> impl Iterator<Item = &IpBlock> {
        self.blocks.values().filter_map(|(cached, _)| match cached {
            BlockViewEntry::Full(block) => Some(block.as_ref()),
            BlockViewEntry::Compact(_) => None,
        })
    }

    /// Returns the blocks stored in full and, if `sticky` is true, the compact blocks that have sticky allocations.
    pub(crate) fn full_or_sticky_blocks(&self, sticky: bool) -> impl Iterator<Item = Cow<'_, IpBlock>> {
        self.blocks.iter().filter_map(move |(id, (cached, _))| full_or_sticky(id, cached, sticky))
    }

    fn entries_of(&self, pool: &AddressPool) -> impl Iterator<Item = (&IpBlockId, &BlockViewEntry)> {
        let (low, high) = pool.block_span();
        self.blocks
            .range(low..=high)
            .map(|(id, (cached, _))| (id, cached))
            .filter(|(id, _)| pool.has_keepable_in(id.first))
    }

    /// Returns summaries of the blocks in which owners may have addresses of `pool`.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        self.entries_of(pool).map(|(id, cached)| cached.summary(id))
    }

    /// Like [`Self::full_or_sticky_blocks`], but only for the blocks of `pool`.
    pub(crate) fn full_or_sticky_blocks_of(
        &self,
        pool: &AddressPool,
        sticky: bool,
    ) -> impl Iterator<Item = (&IpBlockId, Cow<'_, IpBlock>)> {
        self.entries_of(pool).filter_map(move |(id, cached)| Some((id, full_or_sticky(id, cached, sticky)?)))
    }
}

fn full_or_sticky<'a>(id: &IpBlockId, cached: &'a BlockViewEntry, sticky: bool) -> Option<Cow<'a, IpBlock>> {
    match cached {
        BlockViewEntry::Compact(compact) if !(sticky && compact.sticky) => None,
        cached => Some(cached.block(id)),
    }
}

/// Blocks from a list request, for [`BlockView::replace_all`]. `None` stands for a block whose listed version
/// is already cached.
#[derive(Debug, Default)]
pub struct BlockList(BTreeMap<IpBlockId, Option<(BlockViewEntry, ResourceVersion)>>);

#[cfg(test)]
mod tests;
