//! One batch of releases and assignments: which blocks must be written for it.

use crate::batch::{AddressAssignment, AddressRelease, AddressRequest, BlockWrite, RequestRefusal};
use crate::block_view::BlockView;
use crate::planner::AddressPlanner;
use std::collections::BTreeMap;

/// The block writes of one batch, and the assignments and releases that depend on each write.
#[derive(Debug, Default)]
pub(super) struct WriteBatch {
    /// At most one write per block.
    pub(super) writes: Vec<BlockWrite>,
    /// For each release, the positions in `writes` of the writes that must succeed before the release is
    /// complete.
    pub(super) releases: Vec<Vec<usize>>,
    /// The assigned addresses. Each has the position in `writes` of the write that records it.
    pub(super) assignments: Vec<AddressAssignment>,
    pub(super) refusals: Vec<RequestRefusal>,
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
        view.remember_released(&releasing.writes[freed.write].id().space, freed.address, &freed.allocation);
    }

    // Plan the assignments as if the releases had been written. The blocks keep their current versions,
    // because a release and an assignment in the same block become one write. `view` is restored afterwards.
    let mut before = Vec::new();
    for write in &releasing.writes {
        if let BlockWrite::Replace { block, expected } = write {
            before.extend(view.get(&block.id()).map(|(now, version)| (now.clone(), version.clone())));
            view.stage(block.clone(), expected.clone());
        }
    }
    let assigning = planner.plan_assignments(view, requests);
    for (block, version) in before {
        view.stage(block, version);
    }

    let mut writes = releasing.writes;
    let positions: BTreeMap<_, _> =
        writes.iter().enumerate().map(|(position, write)| (write.id(), position)).collect();
    let mut moved = Vec::with_capacity(assigning.writes.len());
    for write in assigning.writes {
        match positions.get(&write.id()) {
            Some(position) => {
                writes[*position] = merge(&writes[*position], write);
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
    WriteBatch { writes, releases: by_release, assignments, refusals: assigning.refusals }
}

/// Combines the write of a release with that of an assignment in the same block, which was planned after it.
fn merge(release: &BlockWrite, assignment: BlockWrite) -> BlockWrite {
    match (release, assignment) {
        (BlockWrite::Replace { block, expected }, BlockWrite::Add(addition)) => {
            let mut block = block.clone();
            block.entries.extend(addition.entries);
            block.node = addition.holder.or(block.node);
            BlockWrite::Replace { block, expected: expected.clone() }
        }
        (_, assignment) => assignment,
    }
}
