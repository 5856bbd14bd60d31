//! Giving addresses back.
//!
//! Those of a StatefulSet's pod stay with its name, without a sandbox, until the set no longer has such a pod; the cluster
//! daemon sees to that.

use crate::batch::BlockWrite;
use crate::block::AddressAllocation;
use crate::block_view::BlockView;
use crate::draft::BlockDraft;
use crate::planner::AddressPlanner;
use std::collections::HashMap;
use std::net::IpAddr;

/// A sandbox, or one interface of it, that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRelease {
    /// The sandbox (`CNI_CONTAINERID`). Entries of any other are left alone.
    pub container: String,
    /// Only this interface's addresses; all of the sandbox's when absent.
    pub interface: Option<String>,
}

/// What to write, at most once per granule, and what it frees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleasePlan {
    /// The writes.
    pub writes: Vec<BlockWrite>,
    /// The addresses; each is free when its write has succeeded.
    pub released: Vec<ReleasedAddress>,
}

/// An address given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedAddress {
    /// Position of the release in the batch.
    pub release: usize,
    /// The address.
    pub address: IpAddr,
    /// What stood there.
    pub allocation: AddressAllocation,
    /// Position of the write that frees it.
    pub write: usize,
}

impl AddressPlanner<'_> {
    /// Plans the release of whatever `releases` hold in the granules that `view` knows. A release that frees
    /// nothing is complete.
    pub fn plan_releases(view: &BlockView, releases: &[AddressRelease]) -> ReleasePlan {
        let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, release) in releases.iter().enumerate() {
            if !release.container.is_empty() {
                positions.entry(&release.container).or_default().push(position);
            }
        }
        let mut draft = BlockDraft::new(view);
        let mut found = Vec::new();
        // A sandbox has nothing in what only other nodes use.
        for granule in view.full_blocks() {
            for (offset, entry) in &granule.entries {
                let meant = |position: &&usize| {
                    releases[**position].interface.as_ref().is_none_or(|name| *name == entry.interface)
                };
                let Some(candidates) = positions.get(entry.container.as_str()) else { continue };
                if let Some(release) = candidates.iter().find(meant) {
                    let id = granule.id();
                    // What a StatefulSet's pod had waits for the next pod of its name.
                    let left =
                        entry.sticky.then(|| AddressAllocation { container: String::new(), ..entry.clone() });
                    draft.set(&id, *offset, left, None);
                    found.push((*release, id, granule.address(*offset), entry));
                }
            }
        }
        let (writes, written) = draft.into_writes();
        let freed = found.into_iter().filter_map(|(release, id, address, entry)| {
            let write = *written.get(&id)?;
            Some(ReleasedAddress { release, address, allocation: entry.clone(), write })
        });
        ReleasePlan { released: freed.collect(), writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpBlock, IpBlockId, IpSpace, ResourceVersion};

    fn view() -> BlockView {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), IpAddr::from([10, 0, 0, 0]));
        let mut granule = IpBlock::new(id, None);
        for (offset, container, interface) in [(1, "c1", "net1"), (2, "c1", "net2"), (3, "c2", "net1")] {
            let entry = AddressAllocation {
                pod: "ns/p".into(),
                uid: "u".into(),
                sticky: false,
                interface: interface.into(),
                ordinal: 0,
                container: container.into(),
                node: "a".into(),
                pool: String::new(),
            };
            granule.entries.insert(offset, entry);
        }
        let mut view = BlockView::new();
        view.observe(granule, ResourceVersion("7".into()));
        view
    }

    fn freed(container: &str, interface: Option<&str>) -> Vec<String> {
        let release = AddressRelease { container: container.into(), interface: interface.map(str::to_owned) };
        let plan = AddressPlanner::plan_releases(&view(), &[release]);
        assert!(plan.writes.len() <= 1);
        for write in &plan.writes {
            assert!(matches!(write, BlockWrite::Replace { expected, .. } if expected.0 == "7"));
            assert_eq!(usize::from(write.block().used()), 3 - plan.released.len());
        }
        plan.released.iter().map(|freed| freed.address.to_string()).collect()
    }

    #[test]
    fn by_sandbox_or_by_interface() {
        assert_eq!(freed("c1", None), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(freed("c1", Some("net2")), ["10.0.0.2"]);
        assert_eq!(freed("c2", Some("net2")), [""; 0]);
        assert_eq!(freed("c3", None), [""; 0]);
        assert_eq!(freed("", None), [""; 0]);
    }
}
