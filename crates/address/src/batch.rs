//! A batch of requests, and what becomes of it.

use crate::block::{AddressAllocation, AllocationOwner, IpBlock, OwnerPod};
use crate::block_view::ResourceVersion;
use crate::error::Error;
use crate::pool::AddressPool;
use ferroband_model::PodRef;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// One address wanted.
#[derive(Clone, Debug)]
pub struct AddressRequest {
    /// Where it may come from, the first preferred; all of one family.
    pub pools: Vec<Arc<AddressPool>>,
    /// The pod, with its UID.
    pub pod: PodRef,
    /// Whether the address stays with the pod's name over re-creation, as for a StatefulSet.
    pub sticky: bool,
    /// The interface in the pod.
    pub interface: String,
    /// Which of the interface's addresses of this family, counted from 0.
    pub ordinal: u8,
    /// The sandbox (`CNI_CONTAINERID`). The requests of one sandbox in a batch are served all or none.
    pub container: String,
}

impl AddressRequest {
    pub(crate) fn owner(&self) -> Option<AllocationOwner> {
        let family = self.pools.first()?.family();
        let holder = OwnerPod::of(&self.pod, self.sticky);
        Some(AllocationOwner {
            pod: holder,
            interface: self.interface.clone(),
            family,
            ordinal: self.ordinal,
        })
    }

    /// What stands in the granule once the request is served from `pool`.
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

    /// Without these two an address could not be told from another's.
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

/// What to write, at most once per granule, and what it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssignmentPlan {
    /// The writes. They are independent of each other: some may succeed and others be refused.
    pub writes: Vec<BlockWrite>,
    /// The addresses; each counts when its write has succeeded.
    pub assignments: Vec<AddressAssignment>,
    /// The requests that cannot be served.
    pub refusals: Vec<RequestRefusal>,
}

/// A write by compare-and-swap.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockWrite {
    /// Make this object; refused if it exists.
    Create(IpBlock),
    /// Replace it; refused if it is not at `expected`.
    Replace {
        /// The new contents.
        block: IpBlock,
        /// The state they were made from.
        expected: ResourceVersion,
    },
}

impl BlockWrite {
    /// The contents to write.
    pub fn block(&self) -> &IpBlock {
        match self {
            Self::Create(granule) | Self::Replace { block: granule, .. } => granule,
        }
    }
}

/// An address for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressAssignment {
    /// Position of the request in the batch.
    pub request: usize,
    /// Address and prefix length.
    pub address: IpNet,
    /// The gateway of its pool.
    pub gateway: Option<IpAddr>,
    /// Position of the write that makes it so; `None` when it stands in its granule already.
    pub write: Option<usize>,
}

/// A request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// Position of the request in the batch.
    pub request: usize,
    /// Why; for requests that fall with another of their sandbox, that one's reason.
    pub error: Error,
}
