//! The granules as far as they are known.

use crate::block::{AddressAllocation, AllocationOwner, IP_BLOCK_SIZE, IpBlock, IpBlockId};
use crate::compact::CompactBlock;
use crate::etcd_restore::LostAllocations;
use crate::ip_space::IpSpace;
use crate::pool::AddressPool;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How many addresses that were given back are remembered with their owners.
const MAX_REMEMBERED_RELEASES: usize = 128;

/// The state of an object that a write expects to replace (`metadata.resourceVersion`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(pub String);

impl ResourceVersion {
    /// Whether this is certainly an older state than `other`. Only versions that are decimal numbers, as those
    /// of an API server over etcd are, have an order.
    fn is_older_than(&self, other: &Self) -> bool {
        match (self.0.parse::<u64>(), other.0.parse::<u64>()) {
            (Ok(mine), Ok(theirs)) => mine < theirs,
            _ => false,
        }
    }
}

/// What a node knows of the granules. It may be behind: every write says which version it was made from, and
/// the API server refuses it if there is a newer one.
#[derive(Clone, Debug, Default)]
pub struct BlockView {
    blocks: BTreeMap<IpBlockId, (BlockViewEntry, ResourceVersion)>,
    /// The node whose granules are at hand; those of others are packed.
    node: Option<Box<str>>,
    /// What stood there before a restore of etcd.
    lost: LostAllocations,
    /// What was given back here lately, and by whom; the latest last.
    released: VecDeque<(IpSpace, IpAddr, AllocationOwner)>,
}

/// A granule, at hand or packed.
#[derive(Clone, Debug)]
enum BlockViewEntry {
    /// Beside the map, which has room for the other kind in every place.
    Full(Box<IpBlock>),
    Compact(CompactBlock),
}

/// What can be seen of a granule without unpacking it.
#[derive(Clone, Copy, Debug)]
pub struct BlockSummary<'a> {
    /// Which.
    pub id: &'a IpBlockId,
    /// The node that holds it.
    pub node: Option<&'a str>,
    /// Assigned offsets as bits.
    pub assigned_offsets: u16,
}

impl<'a> BlockSummary<'a> {
    pub(crate) fn new(id: &'a IpBlockId, granule: &'a IpBlock) -> Self {
        Self { id, node: granule.node.as_deref(), assigned_offsets: granule.assigned_offsets() }
    }

    /// Whether it may be taken whole.
    pub(crate) fn is_claimable(&self) -> bool {
        self.node.is_none() && self.assigned_offsets == 0
    }

    /// The addresses that are assigned.
    pub fn assigned_addresses(self) -> impl Iterator<Item = IpAddr> + 'a {
        (0..IP_BLOCK_SIZE)
            .filter(move |offset| self.assigned_offsets >> offset & 1 != 0)
            .map(|offset| self.id.address(offset))
    }
}

impl BlockViewEntry {
    fn summary<'a>(&'a self, id: &'a IpBlockId) -> BlockSummary<'a> {
        match self {
            Self::Full(granule) => BlockSummary::new(id, granule),
            Self::Compact(packed) => {
                BlockSummary { id, node: packed.node.as_deref(), assigned_offsets: packed.assigned_offsets }
            }
        }
    }

    fn block(&self, id: &IpBlockId) -> Cow<'_, IpBlock> {
        match self {
            Self::Full(granule) => Cow::Borrowed(granule),
            Self::Compact(packed) => Cow::Owned(packed.unpack(id)),
        }
    }
}

impl BlockView {
    /// A view of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A view of nothing that a node will have: what others have in it takes little room.
    pub fn for_node(node: &str) -> Self {
        Self { node: Some(node.into()), ..Self::default() }
    }

    fn view_entry(&self, granule: IpBlock) -> BlockViewEntry {
        let own = |node: &str| {
            granule.node.as_deref() == Some(node) || granule.entries.values().any(|entry| entry.node == node)
        };
        match &self.node {
            Some(node) if !granule.entries.is_empty() && !own(node) => {
                BlockViewEntry::Compact(CompactBlock::pack(&granule))
            }
            _ => BlockViewEntry::Full(Box::new(granule)),
        }
    }

    /// Takes in a granule seen by a watch or answered to one's own write; one that is older than what is known,
    /// as a watch lagging behind one's own writes delivers, changes nothing.
    pub fn observe(&mut self, granule: IpBlock, version: ResourceVersion) {
        match self.blocks.get(&granule.id()) {
            Some((_, known)) if version.is_older_than(known) => {}
            _ => {
                let id = self.note_observed(&granule);
                self.blocks.insert(id, (self.view_entry(granule), version));
            }
        }
    }

    /// Takes in a granule read in order to write it, whole. It counts whatever was known: after a restore of etcd versions
    /// start over.
    pub fn refresh(&mut self, granule: IpBlock, version: ResourceVersion) {
        let id = self.note_observed(&granule);
        self.blocks.insert(id, (BlockViewEntry::Full(Box::new(granule)), version));
    }

    fn note_observed(&mut self, granule: &IpBlock) -> IpBlockId {
        let id = granule.id();
        let before = self.summary(&id).map_or(0, |known| known.assigned_offsets);
        self.lost.observe(granule, before);
        id
    }

    /// Whether a granule is known without pods' UIDs and sandboxes: it must be read before it is written.
    pub fn is_compact(&self, id: &IpBlockId) -> bool {
        self.blocks.get(id).is_some_and(|(known, _)| matches!(known, BlockViewEntry::Compact(_)))
    }

    /// Forgets a granule whose object is gone.
    pub fn remove(&mut self, id: &IpBlockId) {
        self.blocks.remove(id);
    }

    /// A list as it arrives, for [`View::take`]. What is known in the same version is not kept twice.
    pub fn add_to_list(&self, listed: &mut BlockList, granule: IpBlock, version: ResourceVersion) {
        let id = granule.id();
        let same = self.blocks.get(&id).is_some_and(|(_, known)| *known == version);
        listed.0.insert(id, (!same).then(|| (self.view_entry(granule), version)));
    }

    /// Begins again with the result of a full list. `true` if the API server has forgotten what it had said, as after a
    /// restore of etcd: a version turned back, or a granule gone in which the view's own node has something. Then what
    /// is missing is left alone until its nodes have said what lives. Of granules that are `fresher` than the list, as
    /// those are that were written while it came, it says nothing.
    pub fn replace_all(&mut self, listed: BlockList, fresher: impl Fn(&IpBlockId) -> bool) -> bool {
        let mut before = std::mem::take(&mut self.blocks);
        let own = |known: &BlockViewEntry| match (known, self.node.as_deref()) {
            (BlockViewEntry::Full(granule), Some(node)) => {
                granule.entries.values().any(|entry| entry.node == node)
            }
            _ => false,
        };
        let restored = before.iter().any(|(id, (known, version))| match listed.0.get(id) {
            _ if fresher(id) => false,
            Some(new) => new.as_ref().is_some_and(|(_, new)| new.is_older_than(version)),
            None => own(known),
        });
        if restored {
            for (id, (known, version)) in &before {
                let now = match listed.0.get(id) {
                    Some(Some((now, new))) if new.is_older_than(version) => now.summary(id).assigned_offsets,
                    Some(_) => continue,
                    None => 0,
                };
                self.lost.add(&known.block(id), now);
            }
        }
        let now = listed.0.into_iter().filter_map(|(id, new)| {
            let known = new.or_else(|| before.remove(&id))?;
            Some((id, known))
        });
        self.blocks = now.collect();
        restored
    }

    /// The address is given back. A living pod whose sandbox is made anew has it again if nobody took it meanwhile.
    pub fn remember_released(&mut self, space: &IpSpace, address: IpAddr, entry: &AddressAllocation) {
        self.released.retain(|(known, one, _)| (known, *one) != (space, address));
        self.released.push_back((space.clone(), address, entry.owner(address)));
        if self.released.len() > MAX_REMEMBERED_RELEASES {
            self.released.pop_front();
        }
    }

    /// What the owner last gave back to the pool.
    pub(crate) fn last_released_by(&self, owner: &AllocationOwner, pool: &AddressPool) -> Option<IpAddr> {
        let meant = |(space, address, by): &&(IpSpace, IpAddr, AllocationOwner)| {
            by == owner && space == pool.space() && pool.contains(*address)
        };
        self.released.iter().rev().find(meant).map(|(_, address, _)| *address)
    }

    /// The addresses of a granule that were somebody's before a restore, as bits.
    pub(crate) fn lost_offsets(&self, id: &IpBlockId) -> u16 {
        self.lost.offsets(id)
    }

    /// `address` is about to be written down again by its node.
    pub fn clear_lost(&mut self, space: &IpSpace, address: IpAddr) {
        let (id, offset) = IpBlockId::containing(space, address);
        self.lost.clear(&id, offset);
    }

    /// Everything that lives on the view's own node is written down again.
    pub fn clear_lost_on_own_node(&mut self) {
        if let Some(node) = &self.node {
            self.lost.clear_node(node);
        }
    }

    /// A granule and its version; what another node has in it is [outlined](Self::is_outlined).
    pub fn get(&self, id: &IpBlockId) -> Option<(Cow<'_, IpBlock>, &ResourceVersion)> {
        self.blocks.get_key_value(id).map(|(id, (known, version))| (known.block(id), version))
    }

    /// A granule's version.
    pub fn version(&self, id: &IpBlockId) -> Option<&ResourceVersion> {
        self.blocks.get(id).map(|(_, version)| version)
    }

    /// What can be seen of a granule at once.
    pub(crate) fn summary(&self, id: &IpBlockId) -> Option<BlockSummary<'_>> {
        self.blocks.get_key_value(id).map(|(id, (known, _))| known.summary(id))
    }

    /// All known granules, by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, IpBlock>, &ResourceVersion)> {
        self.blocks.iter().map(|(id, (known, version))| (known.block(id), version))
    }

    /// What can be seen of all at once.
    pub fn summaries(&self) -> impl Iterator<Item = BlockSummary<'_>> {
        self.blocks.iter().map(|(id, (known, _))| known.summary(id))
    }

    /// Those in which the view's own node may have something. All of them, if it has none.
    pub fn full_blocks(&self) -> impl Iterator<Item = &IpBlock> {
        self.blocks.values().filter_map(|(known, _)| match known {
            BlockViewEntry::Full(granule) => Some(granule.as_ref()),
            BlockViewEntry::Compact(_) => None,
        })
    }

    /// The same, and those in which a pod's name has something.
    pub(crate) fn full_or_sticky_blocks(&self, sticky: bool) -> impl Iterator<Item = Cow<'_, IpBlock>> {
        self.blocks.iter().filter_map(move |(id, (known, _))| full_or_sticky(id, known, sticky))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn entries_of(&self, pool: &AddressPool) -> impl Iterator<Item = (&IpBlockId, &BlockViewEntry)> {
        let (low, high) = pool.block_span();
        self.blocks
            .range(low..=high)
            .map(|(id, (known, _))| (id, known))
            .filter(|(id, _)| pool.has_keepable_in(id.first))
    }

    /// The known granules that `pool` has, or had, addresses in.
    pub(crate) fn summaries_of(&self, pool: &AddressPool) -> impl Iterator<Item = BlockSummary<'_>> {
        self.entries_of(pool).map(|(id, known)| known.summary(id))
    }

    /// Those of them in which the view's own node may have something, or, if it is asked for, a pod's name.
    pub(crate) fn full_or_sticky_blocks_of(
        &self,
        pool: &AddressPool,
        sticky: bool,
    ) -> impl Iterator<Item = (&IpBlockId, Cow<'_, IpBlock>)> {
        self.entries_of(pool).filter_map(move |(id, known)| Some((id, full_or_sticky(id, known, sticky)?)))
    }
}

fn full_or_sticky<'a>(id: &IpBlockId, known: &'a BlockViewEntry, sticky: bool) -> Option<Cow<'a, IpBlock>> {
    match known {
        BlockViewEntry::Compact(packed) if !(sticky && packed.sticky) => None,
        known => Some(known.block(id)),
    }
}

/// A list of granules that is arriving.
#[derive(Debug, Default)]
pub struct BlockList(BTreeMap<IpBlockId, Option<(BlockViewEntry, ResourceVersion)>>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpSpace;
    use serde_json::json;

    #[test]
    fn a_lagging_watch_does_not_turn_the_view_back() {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let granule = |node: &str| IpBlock::new(id.clone(), Some(node.into()));
        let mut view = BlockView::new();
        let holder = |view: &BlockView| view.get(&id).and_then(|(granule, _)| granule.node.clone());
        view.observe(granule("new"), ResourceVersion("10".into()));
        view.observe(granule("old"), ResourceVersion("9".into()));
        assert_eq!(holder(&view).as_deref(), Some("new"));
        view.refresh(granule("restored"), ResourceVersion("2".into()));
        assert_eq!(holder(&view).as_deref(), Some("restored"));
        view.observe(granule("odd"), ResourceVersion("not-a-number".into()));
        assert_eq!(holder(&view).as_deref(), Some("odd"));
        view.remove(&id);
        assert!(view.is_empty());
    }

    #[test]
    fn what_others_have_is_packed_and_still_known() {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let granule = |node: &str| {
            let entry =
                json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
            let mut granule = IpBlock::new(id.clone(), Some(node.to_owned()));
            granule.entries.insert(3, serde_json::from_value(entry).unwrap());
            granule
        };
        let mut view = BlockView::for_node("own");
        view.observe(granule("other"), ResourceVersion("1".into()));
        assert_eq!((view.full_blocks().count(), view.is_compact(&id)), (0, true));
        let holder = |view: &BlockView| view.get(&id).map(|(seen, _)| seen.entries[&3].node.clone());
        assert_eq!(holder(&view).as_deref(), Some("other"));
        assert_eq!(
            view.summaries().flat_map(BlockSummary::assigned_addresses).collect::<Vec<_>>(),
            [IpAddr::from([10, 0, 0, 3])]
        );
        // A list in which it is as it was, and one in which it is not.
        let mut listed = BlockList::default();
        view.add_to_list(&mut listed, granule("never looked at"), ResourceVersion("1".into()));
        assert!(!view.replace_all(listed, |_| false));
        assert_eq!(holder(&view).as_deref(), Some("other"));
        // Read in order to be written.
        view.refresh(granule("other"), ResourceVersion("1".into()));
        assert_eq!(view.full_blocks().collect::<Vec<_>>(), [&granule("other")]);
        let mut listed = BlockList::default();
        view.add_to_list(&mut listed, granule("own"), ResourceVersion("2".into()));
        assert!(!view.replace_all(listed, |_| false));
        assert_eq!(view.full_blocks().collect::<Vec<_>>(), [&granule("own")]);
        assert!(view.replace_all(BlockList::default(), |_| false), "what it had cannot have gone by itself");
        assert!(view.is_empty());
    }

    #[test]
    fn what_a_restore_forgot_is_given_to_nobody_until_its_node_has_spoken() {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let granule = |nodes: &[(u8, &str)]| {
            let mut granule = IpBlock::new(id.clone(), None);
            for (offset, node) in nodes {
                let entry =
                    json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
                granule.entries.insert(*offset, serde_json::from_value(entry).unwrap());
            }
            granule
        };
        let mut view = BlockView::for_node("own");
        view.observe(
            granule(&[(1, "a"), (2, "a"), (3, "b"), (4, "own"), (5, "own")]),
            ResourceVersion("9".into()),
        );
        let mut listed = BlockList::default();
        view.add_to_list(&mut listed, granule(&[(1, "a")]), ResourceVersion("3".into()));
        assert!(view.replace_all(listed, |_| false), "version 3 after version 9");
        assert_eq!(view.lost_offsets(&id), 0b11_1100);
        // The node's own: one lives, and then nothing else does.
        view.clear_lost(&IpSpace::default_space(), id.address(4));
        assert_eq!(view.lost_offsets(&id), 0b10_1100);
        view.clear_lost_on_own_node();
        assert_eq!(view.lost_offsets(&id), 0b00_1100);
        // Written down again by its node: known, and nothing new yet.
        view.observe(granule(&[(1, "a"), (2, "a")]), ResourceVersion("4".into()));
        assert_eq!(view.lost_offsets(&id), 0b00_1000);
        // Something new of a node that had said nothing of the other: that one is nobody's any more.
        view.observe(granule(&[(1, "a"), (2, "a"), (9, "b")]), ResourceVersion("5".into()));
        assert_eq!(view.lost_offsets(&id), 0);
    }
}
