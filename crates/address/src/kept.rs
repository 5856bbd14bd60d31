//! Who has an address already.

use crate::batch::Request;
use crate::error::{Error, Holding};
use crate::family::Family;
use crate::granule::{Entry, GranuleId, Holder, Owner};
use crate::pool::Pool;
use crate::view::View;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where a request's address is.
#[derive(Clone)]
pub(crate) struct Place<'r> {
    pub(crate) pool: &'r Pool,
    pub(crate) id: GranuleId,
    pub(crate) offset: u8,
    /// Whether a write is needed.
    pub(crate) changed: bool,
}

/// What is known of the requests' owners, by the request's position.
pub(crate) struct Kept<'r> {
    /// The addresses that they have.
    pub(crate) places: HashMap<usize, Place<'r>>,
    /// Those whose address a sandbox on another node may still use.
    pub(crate) held: HashMap<usize, Error>,
}

impl<'r> Kept<'r> {
    /// Looks the owners of the requests up.
    pub(crate) fn of(view: &View, node: &str, requests: &'r [Request]) -> Self {
        let mut held = HashMap::new();
        let places = kept(view, node, requests, &mut held);
        Self { places, held }
    }
}

fn kept<'r>(
    view: &View,
    node: &str,
    requests: &'r [Request],
    held: &mut HashMap<usize, Error>,
) -> HashMap<usize, Place<'r>> {
    let owners: Vec<_> = requests.iter().map(Request::owner).collect();
    let mut positions: HashMap<OwnerRef<'_>, Vec<usize>> = HashMap::new();
    let mut pools: HashSet<&Pool> = HashSet::new();
    for (position, (request, owner)) in requests.iter().zip(&owners).enumerate() {
        if let (Some(owner), Ok(())) = (owner, request.identified()) {
            positions.entry(OwnerRef::of(owner)).or_default().push(position);
            pools.extend(request.pools.iter().map(Arc::as_ref));
        }
    }
    let mut kept: HashMap<usize, (usize, Place<'r>)> = HashMap::new();
    // Others have what only a name can claim.
    let sticky = requests.iter().any(|request| request.sticky);
    for pool in pools {
        for (id, granule) in view.opened(pool, sticky) {
            for (offset, entry) in &granule.entries {
                // A pod never changes its node, so only sticky addresses come from elsewhere.
                if !entry.sticky && entry.node != node {
                    continue;
                }
                let Some(waiting) = positions.get(&OwnerRef::of_entry(entry, pool.family())) else {
                    continue;
                };
                if !pool.keeps(id.address(*offset)) {
                    continue;
                }
                for position in waiting {
                    if entry.node != node && !entry.is_waiting() {
                        // The new pod may be running before the old one, on a node nobody can reach, has ended.
                        let (pod, node) = (entry.pod.clone(), entry.node.clone());
                        let holding = Holding { address: id.address(*offset), pod, node };
                        held.insert(*position, Error::StillHeld { holding });
                        continue;
                    }
                    let mut candidates = requests[*position].pools.iter();
                    let Some(rank) = candidates.position(|candidate| **candidate == *pool) else { continue };
                    if kept.get(position).is_none_or(|(best, _)| rank < *best) {
                        let place = Place { pool, id: id.clone(), offset: *offset, changed: false };
                        kept.insert(*position, (rank, place));
                    }
                }
            }
        }
    }
    kept.into_iter().map(|(position, (_, place))| (position, place)).collect()
}

/// An [`Owner`] without copies: a big pool has tens of thousands of entries to compare with.
#[derive(PartialEq, Eq, Hash)]
struct OwnerRef<'a> {
    sticky: bool,
    holder: &'a str,
    interface: &'a str,
    family: Family,
    ordinal: u8,
}

impl<'a> OwnerRef<'a> {
    fn of(owner: &'a Owner) -> Self {
        let (sticky, holder) = match &owner.holder {
            Holder::Pod(uid) => (false, uid),
            Holder::Named(pod) => (true, pod),
        };
        Self { sticky, holder, interface: &owner.interface, family: owner.family, ordinal: owner.ordinal }
    }

    fn of_entry(entry: &'a Entry, family: Family) -> Self {
        let holder = if entry.sticky { &entry.pod } else { &entry.uid };
        Self { sticky: entry.sticky, holder, interface: &entry.interface, family, ordinal: entry.ordinal }
    }
}
