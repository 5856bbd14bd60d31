//! Giving addresses back.
//!
//! Those of a StatefulSet's pod stay with its name, without a sandbox, until the set no longer has such a pod; the cluster
//! daemon sees to that.

use crate::assign::Planner;
use crate::batch::Write;
use crate::draft::Draft;
use crate::granule::Entry;
use crate::view::View;
use std::collections::HashMap;
use std::net::IpAddr;

/// A sandbox, or one interface of it, that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The sandbox (`CNI_CONTAINERID`). Entries of any other are left alone.
    pub container: String,
    /// Only this interface's addresses; all of the sandbox's when absent.
    pub interface: Option<String>,
}

/// What to write, at most once per granule, and what it frees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleasePlan {
    /// The writes.
    pub writes: Vec<Write>,
    /// The addresses; each is free when its write has succeeded.
    pub freed: Vec<Freed>,
}

/// An address given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Position of the release in the batch.
    pub release: usize,
    /// The address.
    pub address: IpAddr,
    /// What stood there.
    pub entry: Entry,
    /// Position of the write that frees it.
    pub write: usize,
}

impl Planner<'_> {
    /// Plans the release of whatever `releases` hold in the granules that `view` knows. A release that frees
    /// nothing is complete.
    pub fn release(view: &View, releases: &[Release]) -> ReleasePlan {
        let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, release) in releases.iter().enumerate() {
            if !release.container.is_empty() {
                positions.entry(&release.container).or_default().push(position);
            }
        }
        let mut draft = Draft::over(view);
        let mut found = Vec::new();
        // A sandbox has nothing in what only other nodes use.
        for granule in view.open() {
            for (offset, entry) in &granule.entries {
                let meant = |position: &&usize| {
                    releases[**position].interface.as_ref().is_none_or(|name| *name == entry.interface)
                };
                let Some(candidates) = positions.get(entry.container.as_str()) else { continue };
                if let Some(release) = candidates.iter().find(meant) {
                    let id = granule.id();
                    // What a StatefulSet's pod had waits for the next pod of its name.
                    let left = entry.sticky.then(|| Entry { container: String::new(), ..entry.clone() });
                    draft.set(&id, *offset, left, None);
                    found.push((*release, id, granule.address(*offset), entry));
                }
            }
        }
        let (writes, written) = draft.writes();
        let freed = found.into_iter().filter_map(|(release, id, address, entry)| {
            let write = *written.get(&id)?;
            Some(Freed { release, address, entry: entry.clone(), write })
        });
        ReleasePlan { freed: freed.collect(), writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Granule, GranuleId, Space, Version};

    fn view() -> View {
        let (id, _) = GranuleId::containing(&Space::default_space(), IpAddr::from([10, 0, 0, 0]));
        let mut granule = Granule::new(id, None);
        for (offset, container, interface) in [(1, "c1", "net1"), (2, "c1", "net2"), (3, "c2", "net1")] {
            let entry = Entry {
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
        let mut view = View::new();
        view.observe(granule, Version("7".into()));
        view
    }

    fn freed(container: &str, interface: Option<&str>) -> Vec<String> {
        let release = Release { container: container.into(), interface: interface.map(str::to_owned) };
        let plan = Planner::release(&view(), &[release]);
        assert!(plan.writes.len() <= 1);
        for write in &plan.writes {
            assert!(matches!(write, Write::Replace { expected, .. } if expected.0 == "7"));
            assert_eq!(usize::from(write.granule().used()), 3 - plan.freed.len());
        }
        plan.freed.iter().map(|freed| freed.address.to_string()).collect()
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
