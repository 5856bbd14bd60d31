//! One round of the committer, as far as it is pure: from orders to writes.

use ferroband_address::{
    AddressAssignment, AddressPlanner, AddressRelease, AddressRequest, BlockView, BlockWrite, IpBlockId,
    RequestRefusal,
};
use std::collections::BTreeMap;

/// What one round writes, and whom each write serves.
#[derive(Debug, Default)]
pub(super) struct WriteBatch {
    /// The writes, one for each granule.
    pub writes: Vec<BlockWrite>,
    /// For each release, the writes that have to succeed.
    pub releases: Vec<Vec<usize>>,
    /// The addresses, with positions in `writes`.
    pub answers: Vec<AddressAssignment>,
    /// The requests that cannot be served.
    pub refusals: Vec<RequestRefusal>,
    /// Granules among the writes that are known in outline only. They have to be read, and all be planned anew.
    pub unread: Vec<IpBlockId>,
}

/// Plan `releases` and then `requests` over them, so that an address freed here can be assigned here, and a granule
/// that is in both is still written once.
pub(super) fn plan_batch(
    view: &mut BlockView,
    planner: &AddressPlanner<'_>,
    releases: &[AddressRelease],
    requests: &[AddressRequest],
) -> WriteBatch {
    let freeing = AddressPlanner::plan_releases(view, releases);
    let mut by_release = vec![Vec::new(); releases.len()];
    for freed in &freeing.released {
        by_release[freed.release].push(freed.write);
        view.remember_released(&freeing.writes[freed.write].block().space, freed.address, &freed.allocation);
    }

    // The assignment is planned as if the releases had been written, from the versions that they expect.
    let mut before = Vec::new();
    for write in &freeing.writes {
        if let BlockWrite::Replace { block: granule, expected } = write {
            if let Some((now, version)) = view.get(&granule.id()) {
                before.push((now.into_owned(), version.clone()));
            }
            view.refresh(granule.clone(), expected.clone());
        }
    }
    let assigning = planner.plan_assignments(view, requests);
    for (granule, version) in before {
        view.refresh(granule, version);
    }

    let mut writes = freeing.writes;
    let positions: BTreeMap<_, _> =
        writes.iter().enumerate().map(|(position, write)| (write.block().id(), position)).collect();
    let mut moved = Vec::with_capacity(assigning.writes.len());
    for write in assigning.writes {
        match positions.get(&write.block().id()) {
            Some(position) => {
                writes[*position] = write;
                moved.push(*position);
            }
            None => {
                moved.push(writes.len());
                writes.push(write);
            }
        }
    }
    let mut answers = assigning.assignments;
    for answer in &mut answers {
        answer.write = answer.write.map(|position| moved[position]);
    }
    let unread = writes.iter().map(|write| write.block().id()).filter(|id| view.is_compact(id)).collect();
    WriteBatch { writes, releases: by_release, answers, refusals: assigning.refusals, unread }
}
