//! One round of the committer, as far as it is pure: from orders to writes.

use ferroband_address::{Answer, GranuleId, Planner, Refusal, Release, Request, View, Write};
use std::collections::BTreeMap;

/// What one round writes, and whom each write serves.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The writes, one for each granule.
    pub writes: Vec<Write>,
    /// For each release, the writes that have to succeed.
    pub releases: Vec<Vec<usize>>,
    /// The addresses, with positions in `writes`.
    pub answers: Vec<Answer>,
    /// The requests that cannot be served.
    pub refusals: Vec<Refusal>,
    /// Granules among the writes that are known in outline only. They have to be read, and all be planned anew.
    pub unread: Vec<GranuleId>,
}

/// Plan `releases` and then `requests` over them, so that an address freed here can be assigned here, and a granule
/// that is in both is still written once.
pub(super) fn plan(
    view: &mut View,
    planner: &Planner<'_>,
    releases: &[Release],
    requests: &[Request],
) -> Round {
    let freeing = Planner::release(view, releases);
    let mut by_release = vec![Vec::new(); releases.len()];
    for freed in &freeing.freed {
        by_release[freed.release].push(freed.write);
        view.leave(&freeing.writes[freed.write].granule().space, freed.address, &freed.entry);
    }

    // The assignment is planned as if the releases had been written, from the versions that they expect.
    let mut before = Vec::new();
    for write in &freeing.writes {
        if let Write::Replace { granule, expected } = write {
            if let Some((now, version)) = view.get(&granule.id()) {
                before.push((now.into_owned(), version.clone()));
            }
            view.refresh(granule.clone(), expected.clone());
        }
    }
    let assigning = planner.assign(view, requests);
    for (granule, version) in before {
        view.refresh(granule, version);
    }

    let mut writes = freeing.writes;
    let positions: BTreeMap<_, _> =
        writes.iter().enumerate().map(|(position, write)| (write.granule().id(), position)).collect();
    let mut moved = Vec::with_capacity(assigning.writes.len());
    for write in assigning.writes {
        match positions.get(&write.granule().id()) {
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
    let mut answers = assigning.answers;
    for answer in &mut answers {
        answer.write = answer.write.map(|position| moved[position]);
    }
    let unread = writes.iter().map(|write| write.granule().id()).filter(|id| view.is_outlined(id)).collect();
    Round { writes, releases: by_release, answers, refusals: assigning.refusals, unread }
}
