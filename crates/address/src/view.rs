//! The granules as far as they are known.

use crate::granule::{Entry, GRANULE_SIZE, Granule, GranuleId, Owner};
use crate::packed::Packed;
use crate::pool::Pool;
use crate::restored::Forgotten;
use crate::space::Space;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How many addresses that were given back are remembered with their owners.
const REMEMBERED: usize = 128;

/// The state of an object that a write expects to replace (`metadata.resourceVersion`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub String);

impl Version {
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
pub struct View {
    granules: BTreeMap<GranuleId, (Known, Version)>,
    /// The node whose granules are at hand; those of others are packed.
    node: Option<Box<str>>,
    /// What stood there before a restore of etcd.
    forgotten: Forgotten,
    /// What was given back here lately, and by whom; the latest last.
    left: VecDeque<(Space, IpAddr, Owner)>,
}

/// A granule, at hand or packed.
#[derive(Clone, Debug)]
enum Known {
    /// Beside the map, which has room for the other kind in every place.
    Open(Box<Granule>),
    Packed(Packed),
}

/// What can be seen of a granule without unpacking it.
#[derive(Clone, Copy, Debug)]
pub struct Outline<'a> {
    /// Which.
    pub id: &'a GranuleId,
    /// The node that holds it.
    pub node: Option<&'a str>,
    /// Assigned offsets as bits.
    pub occupied: u16,
}

impl<'a> Outline<'a> {
    pub(crate) fn of(id: &'a GranuleId, granule: &'a Granule) -> Self {
        Self { id, node: granule.node.as_deref(), occupied: granule.occupied() }
    }

    /// Whether it may be taken whole.
    pub(crate) fn is_free(&self) -> bool {
        self.node.is_none() && self.occupied == 0
    }

    /// The addresses that are assigned.
    pub fn assigned(self) -> impl Iterator<Item = IpAddr> + 'a {
        (0..GRANULE_SIZE)
            .filter(move |offset| self.occupied >> offset & 1 != 0)
            .map(|offset| self.id.address(offset))
    }
}

impl Known {
    fn outline<'a>(&'a self, id: &'a GranuleId) -> Outline<'a> {
        match self {
            Self::Open(granule) => Outline::of(id, granule),
            Self::Packed(packed) => Outline { id, node: packed.node.as_deref(), occupied: packed.occupied },
        }
    }

    fn granule(&self, id: &GranuleId) -> Cow<'_, Granule> {
        match self {
            Self::Open(granule) => Cow::Borrowed(granule),
            Self::Packed(packed) => Cow::Owned(packed.unpack(id)),
        }
    }
}

impl View {
    /// A view of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A view of nothing that a node will have: what others have in it takes little room.
    pub fn of_node(node: &str) -> Self {
        Self { node: Some(node.into()), ..Self::default() }
    }

    fn known(&self, granule: Granule) -> Known {
        let own = |node: &str| {
            granule.node.as_deref() == Some(node) || granule.entries.values().any(|entry| entry.node == node)
        };
        match &self.node {
            Some(node) if !granule.entries.is_empty() && !own(node) => Known::Packed(Packed::of(&granule)),
            _ => Known::Open(Box::new(granule)),
        }
    }

    /// Takes in a granule seen by a watch or answered to one's own write; one that is older than what is known,
    /// as a watch lagging behind one's own writes delivers, changes nothing.
    pub fn observe(&mut self, granule: Granule, version: Version) {
        match self.granules.get(&granule.id()) {
            Some((_, known)) if version.is_older_than(known) => {}
            _ => {
                let id = self.note(&granule);
                self.granules.insert(id, (self.known(granule), version));
            }
        }
    }

    /// Takes in a granule read in order to write it, whole. It counts whatever was known: after a restore of etcd versions
    /// start over.
    pub fn refresh(&mut self, granule: Granule, version: Version) {
        let id = self.note(&granule);
        self.granules.insert(id, (Known::Open(Box::new(granule)), version));
    }

    fn note(&mut self, granule: &Granule) -> GranuleId {
        let id = granule.id();
        let before = self.outline(&id).map_or(0, |known| known.occupied);
        self.forgotten.seen(granule, before);
        id
    }

    /// Whether a granule is known without pods' UIDs and sandboxes: it must be read before it is written.
    pub fn is_outlined(&self, id: &GranuleId) -> bool {
        self.granules.get(id).is_some_and(|(known, _)| matches!(known, Known::Packed(_)))
    }

    /// Forgets a granule whose object is gone.
    pub fn forget(&mut self, id: &GranuleId) {
        self.granules.remove(id);
    }

    /// A list as it arrives, for [`View::take`]. What is known in the same version is not kept twice.
    pub fn list(&self, listed: &mut Listed, granule: Granule, version: Version) {
        let id = granule.id();
        let same = self.granules.get(&id).is_some_and(|(_, known)| *known == version);
        listed.0.insert(id, (!same).then(|| (self.known(granule), version)));
    }

    /// Begins again with the result of a full list. `true` if the API server has forgotten what it had said, as after a
    /// restore of etcd: a version turned back, or a granule gone in which the view's own node has something. Then what
    /// is missing is left alone until its nodes have said what lives. Of granules that are `fresher` than the list, as
    /// those are that were written while it came, it says nothing.
    pub fn take(&mut self, listed: Listed, fresher: impl Fn(&GranuleId) -> bool) -> bool {
        let mut before = std::mem::take(&mut self.granules);
        let own = |known: &Known| match (known, self.node.as_deref()) {
            (Known::Open(granule), Some(node)) => granule.entries.values().any(|entry| entry.node == node),
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
                    Some(Some((now, new))) if new.is_older_than(version) => now.outline(id).occupied,
                    Some(_) => continue,
                    None => 0,
                };
                self.forgotten.add(&known.granule(id), now);
            }
        }
        let now = listed.0.into_iter().filter_map(|(id, new)| {
            let known = new.or_else(|| before.remove(&id))?;
            Some((id, known))
        });
        self.granules = now.collect();
        restored
    }

    /// The address is given back. A living pod whose sandbox is made anew has it again if nobody took it meanwhile.
    pub fn leave(&mut self, space: &Space, address: IpAddr, entry: &Entry) {
        self.left.retain(|(known, one, _)| (known, *one) != (space, address));
        self.left.push_back((space.clone(), address, entry.owner(address)));
        if self.left.len() > REMEMBERED {
            self.left.pop_front();
        }
    }

    /// What the owner last gave back to the pool.
    pub(crate) fn left_by(&self, owner: &Owner, pool: &Pool) -> Option<IpAddr> {
        let meant = |(space, address, by): &&(Space, IpAddr, Owner)| {
            by == owner && space == pool.space() && pool.contains(*address)
        };
        self.left.iter().rev().find(meant).map(|(_, address, _)| *address)
    }

    /// The addresses of a granule that were somebody's before a restore, as bits.
    pub(crate) fn forgotten(&self, id: &GranuleId) -> u16 {
        self.forgotten.of(id)
    }

    /// `address` is about to be written down again by its node.
    pub fn recall(&mut self, space: &Space, address: IpAddr) {
        let (id, offset) = GranuleId::containing(space, address);
        self.forgotten.recall(&id, offset);
    }

    /// Everything that lives on the view's own node is written down again.
    pub fn recalled(&mut self) {
        if let Some(node) = &self.node {
            self.forgotten.settle(node);
        }
    }

    /// A granule and its version; what another node has in it is [outlined](Self::is_outlined).
    pub fn get(&self, id: &GranuleId) -> Option<(Cow<'_, Granule>, &Version)> {
        self.granules.get_key_value(id).map(|(id, (known, version))| (known.granule(id), version))
    }

    /// A granule's version.
    pub fn version(&self, id: &GranuleId) -> Option<&Version> {
        self.granules.get(id).map(|(_, version)| version)
    }

    /// What can be seen of a granule at once.
    pub(crate) fn outline(&self, id: &GranuleId) -> Option<Outline<'_>> {
        self.granules.get_key_value(id).map(|(id, (known, _))| known.outline(id))
    }

    /// All known granules, by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, Granule>, &Version)> {
        self.granules.iter().map(|(id, (known, version))| (known.granule(id), version))
    }

    /// What can be seen of all at once.
    pub fn outlines(&self) -> impl Iterator<Item = Outline<'_>> {
        self.granules.iter().map(|(id, (known, _))| known.outline(id))
    }

    /// Those in which the view's own node may have something. All of them, if it has none.
    pub fn open(&self) -> impl Iterator<Item = &Granule> {
        self.granules.values().filter_map(|(known, _)| match known {
            Known::Open(granule) => Some(granule.as_ref()),
            Known::Packed(_) => None,
        })
    }

    /// The same, and those in which a pod's name has something.
    pub(crate) fn open_or_sticky(&self, sticky: bool) -> impl Iterator<Item = Cow<'_, Granule>> {
        self.granules.iter().filter_map(move |(id, (known, _))| opened(id, known, sticky))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.granules.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }

    fn within(&self, pool: &Pool) -> impl Iterator<Item = (&GranuleId, &Known)> {
        let (low, high) = pool.span();
        self.granules
            .range(low..=high)
            .map(|(id, (known, _))| (id, known))
            .filter(|(id, _)| pool.reaches(id.first))
    }

    /// The known granules that `pool` has, or had, addresses in.
    pub(crate) fn of(&self, pool: &Pool) -> impl Iterator<Item = Outline<'_>> {
        self.within(pool).map(|(id, known)| known.outline(id))
    }

    /// Those of them in which the view's own node may have something, or, if it is asked for, a pod's name.
    pub(crate) fn opened(
        &self,
        pool: &Pool,
        sticky: bool,
    ) -> impl Iterator<Item = (&GranuleId, Cow<'_, Granule>)> {
        self.within(pool).filter_map(move |(id, known)| Some((id, opened(id, known, sticky)?)))
    }
}

fn opened<'a>(id: &GranuleId, known: &'a Known, sticky: bool) -> Option<Cow<'a, Granule>> {
    match known {
        Known::Packed(packed) if !(sticky && packed.sticky) => None,
        known => Some(known.granule(id)),
    }
}

/// A list of granules that is arriving.
#[derive(Debug, Default)]
pub struct Listed(BTreeMap<GranuleId, Option<(Known, Version)>>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;
    use serde_json::json;

    #[test]
    fn a_lagging_watch_does_not_turn_the_view_back() {
        let (id, _) = GranuleId::containing(&Space::default_space(), [10, 0, 0, 0].into());
        let granule = |node: &str| Granule::new(id.clone(), Some(node.into()));
        let mut view = View::new();
        let holder = |view: &View| view.get(&id).and_then(|(granule, _)| granule.node.clone());
        view.observe(granule("new"), Version("10".into()));
        view.observe(granule("old"), Version("9".into()));
        assert_eq!(holder(&view).as_deref(), Some("new"));
        view.refresh(granule("restored"), Version("2".into()));
        assert_eq!(holder(&view).as_deref(), Some("restored"));
        view.observe(granule("odd"), Version("not-a-number".into()));
        assert_eq!(holder(&view).as_deref(), Some("odd"));
        view.forget(&id);
        assert!(view.is_empty());
    }

    #[test]
    fn what_others_have_is_packed_and_still_known() {
        let (id, _) = GranuleId::containing(&Space::default_space(), [10, 0, 0, 0].into());
        let granule = |node: &str| {
            let entry =
                json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
            let mut granule = Granule::new(id.clone(), Some(node.to_owned()));
            granule.entries.insert(3, serde_json::from_value(entry).unwrap());
            granule
        };
        let mut view = View::of_node("own");
        view.observe(granule("other"), Version("1".into()));
        assert_eq!((view.open().count(), view.is_outlined(&id)), (0, true));
        let holder = |view: &View| view.get(&id).map(|(seen, _)| seen.entries[&3].node.clone());
        assert_eq!(holder(&view).as_deref(), Some("other"));
        assert_eq!(
            view.outlines().flat_map(Outline::assigned).collect::<Vec<_>>(),
            [IpAddr::from([10, 0, 0, 3])]
        );
        // A list in which it is as it was, and one in which it is not.
        let mut listed = Listed::default();
        view.list(&mut listed, granule("never looked at"), Version("1".into()));
        assert!(!view.take(listed, |_| false));
        assert_eq!(holder(&view).as_deref(), Some("other"));
        // Read in order to be written.
        view.refresh(granule("other"), Version("1".into()));
        assert_eq!(view.open().collect::<Vec<_>>(), [&granule("other")]);
        let mut listed = Listed::default();
        view.list(&mut listed, granule("own"), Version("2".into()));
        assert!(!view.take(listed, |_| false));
        assert_eq!(view.open().collect::<Vec<_>>(), [&granule("own")]);
        assert!(view.take(Listed::default(), |_| false), "what it had cannot have gone by itself");
        assert!(view.is_empty());
    }

    #[test]
    fn what_a_restore_forgot_is_given_to_nobody_until_its_node_has_spoken() {
        let (id, _) = GranuleId::containing(&Space::default_space(), [10, 0, 0, 0].into());
        let granule = |nodes: &[(u8, &str)]| {
            let mut granule = Granule::new(id.clone(), None);
            for (offset, node) in nodes {
                let entry =
                    json!({"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": node});
                granule.entries.insert(*offset, serde_json::from_value(entry).unwrap());
            }
            granule
        };
        let mut view = View::of_node("own");
        view.observe(granule(&[(1, "a"), (2, "a"), (3, "b"), (4, "own"), (5, "own")]), Version("9".into()));
        let mut listed = Listed::default();
        view.list(&mut listed, granule(&[(1, "a")]), Version("3".into()));
        assert!(view.take(listed, |_| false), "version 3 after version 9");
        assert_eq!(view.forgotten(&id), 0b11_1100);
        // The node's own: one lives, and then nothing else does.
        view.recall(&Space::default_space(), id.address(4));
        assert_eq!(view.forgotten(&id), 0b10_1100);
        view.recalled();
        assert_eq!(view.forgotten(&id), 0b00_1100);
        // Written down again by its node: known, and nothing new yet.
        view.observe(granule(&[(1, "a"), (2, "a")]), Version("4".into()));
        assert_eq!(view.forgotten(&id), 0b00_1000);
        // Something new of a node that had said nothing of the other: that one is nobody's any more.
        view.observe(granule(&[(1, "a"), (2, "a"), (9, "b")]), Version("5".into()));
        assert_eq!(view.forgotten(&id), 0);
    }
}
