//! A batch of requests, and what becomes of it.

use crate::error::Error;
use crate::granule::{Entry, Granule, Holder, Owner};
use crate::pool::Pool;
use crate::view::Version;
use ferroband_model::PodRef;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// One address wanted.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where it may come from, the first preferred; all of one family.
    pub pools: Vec<Arc<Pool>>,
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

impl Request {
    pub(crate) fn owner(&self) -> Option<Owner> {
        let family = self.pools.first()?.family();
        let holder = Holder::of(&self.pod, self.sticky);
        Some(Owner { holder, interface: self.interface.clone(), family, ordinal: self.ordinal })
    }

    /// What stands in the granule once the request is served from `pool`.
    pub(crate) fn entry(&self, node: &str, pool: &Pool) -> Entry {
        Entry {
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
    pub(crate) fn identified(&self) -> Result<(), Error> {
        let missing = if self.container.is_empty() {
            "container id"
        } else if self.pod.uid.is_empty() && !self.sticky {
            "pod UID"
        } else if self.pools.is_empty() {
            "pool"
        } else {
            return Ok(());
        };
        Err(Error::Unidentified { pod: self.pod.to_string(), interface: self.interface.clone(), missing })
    }
}

/// What to write, at most once per granule, and what it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes. They are independent of each other: some may succeed and others be refused.
    pub writes: Vec<Write>,
    /// The addresses; each counts when its write has succeeded.
    pub answers: Vec<Answer>,
    /// The requests that cannot be served.
    pub refusals: Vec<Refusal>,
}

/// A write by compare-and-swap.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Make this object; refused if it exists.
    Create(Granule),
    /// Replace it; refused if it is not at `expected`.
    Replace {
        /// The new contents.
        granule: Granule,
        /// The state they were made from.
        expected: Version,
    },
}

impl Write {
    /// The contents to write.
    pub fn granule(&self) -> &Granule {
        match self {
            Self::Create(granule) | Self::Replace { granule, .. } => granule,
        }
    }
}

/// An address for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
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
pub struct Refusal {
    /// Position of the request in the batch.
    pub request: usize,
    /// Why; for requests that fall with another of their sandbox, that one's reason.
    pub error: Error,
}
