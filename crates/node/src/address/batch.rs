//! Plans which address blocks must be written for one batch of assignments and releases. Does no I/O.

use ferroband_address::{
    AddressAssignment, AddressPlanner, AddressRelease, AddressRequest, BlockView, BlockWrite, IpBlockId,
    RequestRefusal,
};
use std::collections::BTreeMap;

/// The block writes of one batch, and the assignments and releases that depend on each write.
#[derive(Debug, Default)]
pub(super) struct WriteBatch {
    /// At most one write per block.
    pub writes: Vec<BlockWrite>,
    /// For each release, the positions in `writes` of the writes that must succeed before the release is
    /// complete.
    pub releases: Vec<Vec<usize>>,
    /// The assigned addresses. Each has the position in `writes` of the write that records it.
    pub assignments: Vec<AddressAssignment>,
    pub refusals: Vec<RequestRefusal>,
    /// Blocks that must be written, but of which the cache has only a summary. The caller must read them and
    /// plan again.
    pub unread: Vec<IpBlockId>,
}

/// Plans `releases` first and then `requests`, so that an address freed in this batch can be assigned again
/// in the same batch. A block that a release and a request both change is written once.
pub(super) fn plan_batch(
    view: &mut BlockView,
    planner: &AddressPlanner<'_>,
    releases: &[AddressRelease],
    requests: &[AddressRequest],
) -> WriteBatch {
    let releasing = AddressPlanner::plan_releases(view, releases);
    let mut by_release = vec![Vec::new(); releases.len()];
    for freed in &releasing.released {
        by_release[freed.release].push(freed.write);
        view.remember_released(
            &releasing.writes[freed.write].block().space,
            freed.address,
            &freed.allocation,
        );
    }

    // Plan the assignments as if the releases had been written. The blocks keep their current versions,
    // because a release and an assignment in the same block become one write. `view` is restored afterwards.
    let mut before = Vec::new();
    for write in &releasing.writes {
        if let BlockWrite::Replace { block, expected } = write {
            if let Some((now, version)) = view.get(&block.id()) {
                before.push((now.into_owned(), version.clone()));
            }
            view.refresh(block.clone(), expected.clone());
        }
    }
    let assigning = planner.plan_assignments(view, requests);
    for (block, version) in before {
        view.refresh(block, version);
    }

    let mut writes = releasing.writes;
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
    let mut assignments = assigning.assignments;
    for assignment in &mut assignments {
        assignment.write = assignment.write.map(|position| moved[position]);
    }
    let unread = writes.iter().map(|write| write.block().id()).filter(|id| view.is_compact(id)).collect();
    WriteBatch { writes, releases: by_release, assignments, refusals: assigning.refusals, unread }
}
