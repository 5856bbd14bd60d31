//! Pools among each other.

use super::ip_pool::IpPool;
use std::fmt;
use std::net::IpAddr;

/// Why a pool cannot stand beside another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolConflict {
    /// They share addresses.
    Addresses {
        /// The other pool.
        other: String,
        /// The first that they share.
        first: IpAddr,
        /// The last of that stretch.
        last: IpAddr,
    },
    /// Their subnets overlap without being the same.
    Subnets {
        /// The other pool.
        other: String,
        /// The other's subnet.
        subnet: String,
    },
}

impl fmt::Display for PoolConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses { other, first, last } if first == last => {
                write!(f, "{first} is also in pool {other}")
            }
            Self::Addresses { other, first, last } => write!(f, "{first}-{last} is also in pool {other}"),
            Self::Subnets { other, subnet } => {
                write!(f, "its subnet overlaps {subnet} of pool {other} without being the same")
            }
        }
    }
}

/// What `pool` is in conflict with among `others`.
pub fn find_conflicts<'a>(
    pool: &'a IpPool,
    others: impl IntoIterator<Item = &'a IpPool> + 'a,
) -> impl Iterator<Item = PoolConflict> + 'a {
    let subnet = pool.addresses.subnet();
    others.into_iter().filter(move |other| other.addresses.name() != pool.addresses.name()).filter_map(
        move |other| {
            let (name, theirs) = (other.addresses.name().to_owned(), other.addresses.subnet());
            if subnet == theirs {
                let (first, last) = pool.addresses.overlap(&other.addresses)?;
                return Some(PoolConflict::Addresses { other: name, first, last });
            }
            let overlaps = subnet.contains(&theirs) || theirs.contains(&subnet);
            overlaps.then(|| PoolConflict::Subnets { other: name, subnet: theirs.to_string() })
        },
    )
}
