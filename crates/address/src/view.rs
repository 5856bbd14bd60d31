//! The granules as far as they are known.

use crate::granule::{Granule, GranuleId};
use crate::pool::Pool;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    granules: BTreeMap<GranuleId, (Granule, Version)>,
}

impl View {
    /// A view of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a granule seen by a watch or answered to one's own write; one that is older than what is known,
    /// as a watch lagging behind one's own writes delivers, changes nothing.
    pub fn observe(&mut self, granule: Granule, version: Version) {
        match self.granules.get(&granule.id()) {
            Some((_, known)) if version.is_older_than(known) => {}
            _ => self.refresh(granule, version),
        }
    }

    /// Takes in a granule read after a refused write. It counts whatever was known: after a restore of etcd
    /// versions start over.
    pub fn refresh(&mut self, granule: Granule, version: Version) {
        self.granules.insert(granule.id(), (granule, version));
    }

    /// Forgets a granule whose object is gone.
    pub fn forget(&mut self, id: &GranuleId) {
        self.granules.remove(id);
    }

    /// Begins again with the result of a full list.
    pub fn reset(&mut self, granules: impl IntoIterator<Item = (Granule, Version)>) {
        self.granules =
            granules.into_iter().map(|(granule, version)| (granule.id(), (granule, version))).collect();
    }

    /// A granule and its version.
    pub fn get(&self, id: &GranuleId) -> Option<(&Granule, &Version)> {
        self.granules.get(id).map(|(granule, version)| (granule, version))
    }

    /// All known granules, by space and address.
    pub fn iter(&self) -> impl Iterator<Item = (&Granule, &Version)> {
        self.granules.values().map(|(granule, version)| (granule, version))
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.granules.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }

    /// The known granules that `pool` has, or had, addresses in.
    pub(crate) fn of(&self, pool: &Pool) -> impl Iterator<Item = (&GranuleId, &Granule)> {
        let (low, high) = pool.span();
        self.granules
            .range(low..=high)
            .map(|(id, (granule, _))| (id, granule))
            .filter(|(id, _)| pool.reaches(id.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;

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
}
