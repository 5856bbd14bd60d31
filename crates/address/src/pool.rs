//! What may be given out.

use crate::family::{Family, number};
use crate::granule::{GRANULE_SIZE, GranuleId};
use crate::{Error, Exclusion, Space};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// A set of addresses of one subnet in one space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    name: String,
    space: Space,
    subnet: IpNet,
    gateway: Option<IpAddr>,
    /// Disjoint, ascending, both ends included.
    windows: Vec<(u128, u128)>,
}

impl Pool {
    /// The pool `name` of all addresses in `windows` (first and last, in any order, overlapping or not) that are
    /// in `subnet` and not excluded.
    pub fn new(
        name: impl Into<String>,
        space: Space,
        subnet: IpNet,
        windows: impl IntoIterator<Item = (IpAddr, IpAddr)>,
        exclude: &[Exclusion],
        gateway: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let name = name.into();
        let family = Family::of(subnet.addr());
        let of_family =
            |(low, high): &(IpAddr, IpAddr)| Family::of(*low) == family && Family::of(*high) == family;
        let (floor, ceiling) = (number(subnet.network()), number(subnet.broadcast()));
        let offered = windows
            .into_iter()
            .filter(of_family)
            .map(|(low, high)| (number(low).max(floor), number(high).min(ceiling)))
            .collect();
        let excluded = exclude
            .iter()
            .filter(|Exclusion(net)| Family::of(net.addr()) == family)
            .map(|Exclusion(net)| (number(net.network()), number(net.broadcast())))
            .collect();
        let windows = subtract(merge(offered), &merge(excluded));
        if windows.is_empty() {
            return Err(Error::NoUsable { pool: name });
        }
        Ok(Self { name, space, subnet: subnet.trunc(), gateway, windows })
    }

    /// The space its addresses are unique in.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The subnet; its prefix length goes with every address.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// The gateway that goes with every address.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.subnet.addr())
    }

    /// How many addresses it offers.
    pub fn capacity(&self) -> u128 {
        self.windows.iter().fold(0, |sum, (low, high)| sum.saturating_add(high - low).saturating_add(1))
    }

    /// Whether it offers `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let number = number(address);
        Family::of(address) == self.family() && {
            let after = self.windows.partition_point(|(low, _)| *low <= number);
            after > 0 && number <= self.windows[after - 1].1
        }
    }

    /// How many granules its addresses lie in.
    pub(crate) fn granules(&self) -> u128 {
        let mut counted = None;
        self.windows.iter().fold(0, |sum, (low, high)| {
            let (from, to) = (low / SIZE, high / SIZE);
            let shared = u128::from(counted == Some(from));
            counted = Some(to);
            sum + (to - from + 1 - shared)
        })
    }

    /// The first addresses of its granules from that of `from` on, ascending; all of them when `None`.
    pub(crate) fn granules_from(&self, from: Option<IpAddr>) -> impl Iterator<Item = IpAddr> + '_ {
        let from = from.map_or(0, |address| number(address) / SIZE);
        let mut last = None;
        let windows = self.windows.iter().map(|(low, high)| (low / SIZE, high / SIZE));
        windows
            .filter(move |(_, high)| *high >= from)
            .flat_map(move |(low, high)| low.max(from)..=high)
            .filter(move |granule| last.replace(*granule) != Some(*granule))
            .map(|granule| self.family().address(granule * SIZE))
    }

    /// The first granule and the last, for looking at what is known between them.
    pub(crate) fn span(&self) -> (GranuleId, GranuleId) {
        let id = |number: u128| GranuleId {
            space: self.space.clone(),
            first: self.family().address(number - number % SIZE),
        };
        // `new` refuses a pool without windows.
        let low = self.windows.first().map_or(0, |window| window.0);
        let high = self.windows.last().map_or(0, |window| window.1);
        (id(low), id(high))
    }

    /// The offsets of the granule beginning at `first` that it offers, as bits.
    pub(crate) fn offered(&self, first: IpAddr) -> u16 {
        let first = number(first);
        let last = first + (SIZE - 1);
        let begin = self.windows.partition_point(|(_, high)| *high < first);
        self.windows[begin..].iter().take_while(|(low, _)| *low <= last).fold(0, |bits, (low, high)| {
            let (low, high) = (low.max(&first) - first, high.min(&last) - first);
            bits | ((u16::MAX << low) & (u16::MAX >> (15 - high)))
        })
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

const SIZE: u128 = GRANULE_SIZE as u128;

/// Sorts intervals and joins those that touch; those that end before they begin are dropped.
fn merge(mut intervals: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    intervals.retain(|(low, high)| low <= high);
    intervals.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(intervals.len());
    for (low, high) in intervals {
        match merged.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}

/// `from` without `holes`; both merged.
fn subtract(from: Vec<(u128, u128)>, holes: &[(u128, u128)]) -> Vec<(u128, u128)> {
    let mut left = Vec::with_capacity(from.len());
    for (mut low, high) in from {
        let mut open = true;
        for &(hole_low, hole_high) in &holes[holes.partition_point(|hole| hole.1 < low)..] {
            if hole_low > high {
                break;
            }
            if hole_low > low {
                left.push((low, hole_low - 1));
            }
            if hole_high >= high {
                open = false;
                break;
            }
            low = hole_high + 1;
        }
        if open {
            left.push((low, high));
        }
    }
    left
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
