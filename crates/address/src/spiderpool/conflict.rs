//! Finds SpiderIPPools whose addresses or subnets overlap.

use super::ip_pool::IpPool;
use std::fmt;
use std::net::IpAddr;

/// An overlap of a pool with the pool `other`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolConflict {
    /// The pools have the same subnet and share a range of addresses.
    Addresses {
        other: String,
        /// First address of the shared range.
        first: IpAddr,
        /// Last address of the shared range.
        last: IpAddr,
    },
    /// The subnets overlap but differ.
    Subnets { other: String, subnet: String },
}

impl fmt::Display for PoolConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses { other, first, last } if first == last => {
                write!(f, "{first} is also in pool {other}")
            }
            Self::Addresses { other, first, last } => write!(f, "{first}-{last} is also in pool {other}"),
            Self::Subnets { other, subnet } => {
                write!(f, "subnet overlaps {subnet} of pool {other} but differs from it")
            }
        }
    }
}

/// Returns the conflicts of `pool` with `others`, which may contain `pool` itself.
pub fn find_conflicts<'a>(
    pool: &'a IpPool,
    others: impl IntoIterator<Item = &'a IpPool> + 'a,
) -> impl Iterator<Item = PoolConflict> + 'a {
    let subnet = pool.addresses.subnet();
    others.into_iter().filter(move |other| other.addresses.name() != pool.addresses.name()).filter_map(
        move |other| {
            let (name, other_subnet) = (other.addresses.name().to_owned(), other.addresses.subnet());
            if subnet == other_subnet {
                let (first, last) = pool.addresses.overlap(&other.addresses)?;
                return Some(PoolConflict::Addresses { other: name, first, last });
            }
            let overlaps = subnet.contains(&other_subnet) || other_subnet.contains(&subnet);
            overlaps.then(|| PoolConflict::Subnets { other: name, subnet: other_subnet.to_string() })
        },
    )
}
