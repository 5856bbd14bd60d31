//! Address requests and releases, and the plans that serve them.

use crate::block::{AddressAllocation, AllocationOwner, IpBlock, IpBlockId, OwnerPod};
use crate::block_view::{BlockView, ResourceVersion};
use crate::draft::BlockDraft;
use crate::error::Error;
use crate::planner::AddressPlanner;
use crate::pool::AddressPool;
use ferroband_model::PodRef;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct AddressRequest {
    /// Pools to allocate from, in order of preference. All of them have the same address family.
    pub pools: Vec<Arc<AddressPool>>,
    /// Pod that requests the address. The UID is required unless `sticky` is set.
    pub pod: PodRef,
    /// Whether the address stays with the pod name when the pod is re-created, as for a StatefulSet.
    pub sticky: bool,
    /// Interface name in the pod.
    pub interface: String,
    /// Index of the address among the interface's addresses of this family.
    pub ordinal: u8,
    /// Sandbox (`CNI_CONTAINERID`). The requests of one sandbox in a batch succeed or fail together.
    pub container: String,
}

impl AddressRequest {
    pub(crate) fn owner(&self) -> Option<AllocationOwner> {
        let family = self.pools.first()?.family();
        let pod = OwnerPod::of(&self.pod, self.sticky);
        Some(AllocationOwner { pod, interface: self.interface.clone(), family, ordinal: self.ordinal })
    }

    /// The allocation to write into the block when `pool` serves the request.
    pub(crate) fn allocation(&self, node: &str, pool: &AddressPool) -> AddressAllocation {
        AddressAllocation {
            pod: self.pod.to_string(),
            uid: self.pod.uid.clone(),
            sticky: self.sticky,
            interface: self.interface.clone(),
            ordinal: self.ordinal,
            container: self.container.clone(),
            node: node.into(),
            pool: pool.name().into(),
        }
    }

    /// Returns an error if a field that identifies the owner is missing.
    pub(crate) fn check_identity(&self) -> Result<(), Error> {
        let missing = if self.container.is_empty() {
            "container id"
        } else if self.pod.uid.is_empty() && !self.sticky {
            "pod UID"
        } else if self.pools.is_empty() {
            "pool"
        } else {
            return Ok(());
        };
        Err(Error::MissingIdentity { pod: self.pod.to_string(), interface: self.interface.clone(), missing })
    }
}

/// The writes that serve a batch of requests, at most one per block, and the resulting assignments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssignmentPlan {
    /// Writes that are independent of each other: some may succeed while others conflict.
    pub writes: Vec<BlockWrite>,
    /// Assigned addresses. Each becomes valid when its write succeeds.
    pub assignments: Vec<AddressAssignment>,
    /// Requests that cannot be served, with the reason.
    pub refusals: Vec<RequestRefusal>,
}

/// A write of one block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockWrite {
    /// Add entries. Needs no knowledge of the block.
    Add(BlockAddition),
    /// Replace the API object of the block. Conflicts if its version is not `expected`.
    Replace {
        block: IpBlock,
        /// Resource version of the object on which the new contents are based.
        expected: ResourceVersion,
    },
}

/// Entries to add to a block, whatever else it contains. Creates the block if it does not exist. Conflicts if one of the
/// offsets has another entry, or if another node than `holder` has claimed the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockAddition {
    pub id: IpBlockId,
    /// The node that adds the entries, if it claims the block or has claimed it.
    pub holder: Option<String>,
    pub entries: BTreeMap<u8, AddressAllocation>,
    /// Whether the block is known to exist. A cheaper request is used then, which conflicts if the block does not exist.
    pub exists: bool,
}

impl BlockWrite {
    pub fn id(&self) -> IpBlockId {
        match self {
            Self::Add(addition) => addition.id.clone(),
            Self::Replace { block, .. } => block.id(),
        }
    }

    /// Returns the entries that the block has after the write, as far as they are known.
    pub fn entries(&self) -> &BTreeMap<u8, AddressAllocation> {
        match self {
            Self::Add(addition) => &addition.entries,
            Self::Replace { block, .. } => &block.entries,
        }
    }
}

/// The address that a plan assigns to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressAssignment {
    /// Position of the request in the batch.
    pub request: usize,
    /// Assigned address, with the prefix length of the pool's subnet.
    pub address: IpNet,
    /// Gateway of the pool that the address is from; `None` if the pool has none.
    pub gateway: Option<IpAddr>,
    /// Index in [`AssignmentPlan::writes`] of the write that assigns the address; `None` if the block already contains
    /// it.
    pub write: Option<usize>,
}

/// A request of the batch that cannot be served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// Position of the request in the batch.
    pub request: usize,
    /// Position of the first request of the sandbox that cannot be served.
    pub cause: usize,
    /// Why that request cannot be served. All requests of a sandbox get the same error.
    pub error: Error,
}

/// Release of the addresses of a sandbox, or of one of its interfaces, or of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRelease {
    /// Sandbox (`CNI_CONTAINERID`). Allocations of other sandboxes are not changed.
    pub container: String,
    /// Interface whose addresses are released. If absent, the addresses of all interfaces of the sandbox are
    /// released.
    pub interface: Option<String>,
    /// The only address that is released, even if it is reserved for the pod's name. If absent, all addresses are
    /// released.
    pub address: Option<IpAddr>,
}

/// The writes of a batch of releases, at most one per block, and the addresses they free.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleasePlan {
    /// Writes that are independent of each other: some may succeed while others conflict.
    pub writes: Vec<BlockWrite>,
    /// Released addresses. Each becomes free when its write succeeds.
    pub released: Vec<ReleasedAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedAddress {
    /// Position of the release in the batch.
    pub release: usize,
    pub address: IpAddr,
    /// The allocation before the release.
    pub allocation: AddressAllocation,
    /// Index in [`ReleasePlan::writes`] of the write that frees the address.
    pub write: usize,
}

impl AddressPlanner<'_> {
    /// Plans the release of all addresses that `releases` cover in the blocks of `view`. A release without
    /// an address in the plan needs no write.
    ///
    /// Addresses of StatefulSet pods stay reserved for the pod name, without a sandbox. The cluster daemon removes the
    /// reservation when the StatefulSet no longer has a pod of that name.
    pub fn plan_releases(view: &BlockView, releases: &[AddressRelease]) -> ReleasePlan {
        let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, release) in releases.iter().enumerate() {
            if !release.container.is_empty() {
                positions.entry(&release.container).or_default().push(position);
            }
        }
        let mut draft = BlockDraft::new(view, "");
        let mut found = Vec::new();
        for (block, _) in view.iter() {
            for (offset, entry) in &block.entries {
                let address = block.address(*offset);
                let matches = |position: &&usize| {
                    let release = &releases[**position];
                    release.interface.as_ref().is_none_or(|name| *name == entry.interface)
                        && release.address.is_none_or(|only| only == address)
                };
                let Some(candidates) = positions.get(entry.container.as_str()) else { continue };
                if let Some(release) = candidates.iter().find(matches) {
                    let id = block.id();
                    // The address of a StatefulSet pod stays reserved for the next pod with the same name.
                    let reserved = entry.sticky && releases[*release].address.is_none();
                    let remaining =
                        reserved.then(|| AddressAllocation { container: String::new(), ..entry.clone() });
                    draft.set(&id, *offset, remaining, None);
                    found.push((*release, id, address, entry));
                }
            }
        }
        let (writes, written) = draft.into_writes();
        let released = found.into_iter().filter_map(|(release, id, address, entry)| {
            let write = *written.get(&id)?;
            Some(ReleasedAddress { release, address, allocation: entry.clone(), write })
        });
        ReleasePlan { released: released.collect(), writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpSpace;

    fn view() -> BlockView {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), IpAddr::from([10, 0, 0, 0]));
        let mut block = IpBlock::new(id, None);
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
            block.entries.insert(offset, entry);
        }
        let mut view = BlockView::default();
        view.observe(block, ResourceVersion("7".into()));
        view
    }

    fn released(container: &str, interface: Option<&str>) -> Vec<String> {
        let release = AddressRelease {
            container: container.into(),
            interface: interface.map(str::to_owned),
            ..AddressRelease::default()
        };
        let plan = AddressPlanner::plan_releases(&view(), &[release]);
        assert!(plan.writes.len() <= 1);
        for write in &plan.writes {
            assert!(matches!(write, BlockWrite::Replace { expected, .. } if expected.0 == "7"));
            assert_eq!(write.entries().len(), 3 - plan.released.len());
        }
        plan.released.iter().map(|released| released.address.to_string()).collect()
    }

    #[test]
    fn release_frees_the_whole_sandbox_or_one_interface() {
        assert_eq!(released("c1", None), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(released("c1", Some("net2")), ["10.0.0.2"]);
        assert_eq!(released("c2", Some("net2")), [""; 0]);
        assert_eq!(released("c3", None), [""; 0]);
        assert_eq!(released("", None), [""; 0]);
    }
}
