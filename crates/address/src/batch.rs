//! Address requests and the plan that serves them.

use crate::block::{AddressAllocation, AllocationOwner, IpBlock, OwnerPod};
use crate::block_view::ResourceVersion;
use crate::error::Error;
use crate::pool::AddressPool;
use ferroband_model::PodRef;
use ipnet::IpNet;
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

/// A compare-and-swap write of one block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockWrite {
    /// Create the API object of the block. Conflicts if the object exists.
    Create(IpBlock),
    /// Replace the API object of the block. Conflicts if its version is not `expected`.
    Replace {
        block: IpBlock,
        /// Resource version of the object on which the new contents are based.
        expected: ResourceVersion,
    },
}

impl BlockWrite {
    pub fn block(&self) -> &IpBlock {
        match self {
            Self::Create(block) | Self::Replace { block, .. } => block,
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
    /// Why the request cannot be served. All requests of a sandbox get the error of the first one that failed.
    pub error: Error,
}
