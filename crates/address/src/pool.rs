//! Address pools, stored as ranges of integers.

use crate::block::{IP_BLOCK_SIZE, IpBlockId};
use crate::ip_space::{IpFamily, ip_to_number};
use crate::labels::{BlockScope, REGION_SIZE, region_of};
use crate::{Error, Exclusion, IpSpace};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// A set of assignable addresses of one subnet in one IP space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddressPool {
    name: String,
    space: IpSpace,
    subnet: IpNet,
    gateway: Option<IpAddr>,
    /// Assignable addresses: disjoint, ascending, inclusive ranges.
    ranges: Vec<(u128, u128)>,
    /// Addresses that an owner may keep: the assignable ones and those that are withheld from new
    /// assignments.
    keepable: Vec<(u128, u128)>,
    /// The only address of the pool that the request may get; `None` if it may get any.
    requested: Option<IpAddr>,
}

/// A pool with more regions is listed with its whole space.
const MAX_LISTED_REGIONS: usize = 32;

/// Number of ranges that [`AddressPool::describe`] names.
const MAX_DESCRIBED_RANGES: usize = 4;

impl AddressPool {
    /// Creates a pool of all addresses in `ranges` that are in `subnet` and not excluded. Each range is a pair of its
    /// first and last address; the ranges may be unsorted and may overlap. Returns an error if the pool would be
    /// empty.
    pub fn new(
        name: impl Into<String>,
        space: IpSpace,
        subnet: IpNet,
        ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>,
        exclude: &[Exclusion],
        gateway: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let name = name.into();
        let family = IpFamily::of(subnet.addr());
        let of_family =
            |(low, high): &(IpAddr, IpAddr)| IpFamily::of(*low) == family && IpFamily::of(*high) == family;
        let (floor, ceiling) = (ip_to_number(subnet.network()), ip_to_number(subnet.broadcast()));
        let offered = ranges
            .into_iter()
            .filter(of_family)
            .map(|(low, high)| (ip_to_number(low).max(floor), ip_to_number(high).min(ceiling)))
            .collect();
        let excluded = exclude
            .iter()
            .filter(|Exclusion(net)| IpFamily::of(net.addr()) == family)
            .map(|Exclusion(net)| (ip_to_number(net.network()), ip_to_number(net.broadcast())))
            .collect();
        let ranges = subtract(merge(offered), &merge(excluded));
        if ranges.is_empty() {
            return Err(Error::NoUsableAddress { pool: name });
        }
        let (subnet, keepable) = (subnet.trunc(), ranges.clone());
        Ok(Self { name, space, subnet, gateway, ranges, keepable, requested: None })
    }

    /// Returns the pool without the assignable addresses in `withheld`. Owners of these addresses keep them.
    pub fn withholding(&self, withheld: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Self {
        let family = self.family();
        let withheld = withheld.into_iter().filter(|(low, _)| IpFamily::of(*low) == family);
        let withheld = merge(withheld.map(|(low, high)| (ip_to_number(low), ip_to_number(high))).collect());
        let ranges = subtract(self.ranges.clone(), &withheld);
        Self { ranges, ..self.clone() }
    }

    /// Returns a copy of the pool that assigns no new addresses. Owners of its addresses keep them.
    pub fn closed(&self) -> Self {
        Self { ranges: Vec::new(), ..self.clone() }
    }

    /// Returns a copy of the pool with `address` only. `address` must be one that an owner may keep.
    pub fn restricted_to(&self, address: IpAddr) -> Self {
        let number = ip_to_number(address);
        let only = |intervals: &[(u128, u128)]| match contains_number(intervals, number) {
            true => vec![(number, number)],
            false => Vec::new(),
        };
        let (ranges, keepable) = (only(&self.ranges), vec![(number, number)]);
        Self { ranges, keepable, requested: Some(address), ..self.clone() }
    }

    /// Returns the only address that the request may get, if the pool is restricted to one.
    pub(crate) fn requested(&self) -> Option<IpAddr> {
        self.requested
    }

    /// Returns the name and the assignable ranges, for error messages.
    pub(crate) fn describe(&self) -> String {
        let ranges = self.ranges().take(MAX_DESCRIBED_RANGES).map(|(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        });
        let more = if self.ranges.len() > MAX_DESCRIBED_RANGES { ", …" } else { "" };
        format!("{} ({}{more})", self.name, ranges.collect::<Vec<_>>().join(", "))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the assignable ranges (first and last address), disjoint and ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        let family = self.family();
        self.ranges.iter().map(move |(low, high)| (family.address(*low), family.address(*high)))
    }

    /// Returns the first range that both pools offer, if they are in the same IP space.
    pub fn overlap(&self, other: &Self) -> Option<(IpAddr, IpAddr)> {
        if self.space != other.space || self.family() != other.family() {
            return None;
        }
        let pairs = self.ranges.iter().flat_map(|a| other.ranges.iter().map(move |b| (a, b)));
        let mut shared = pairs.map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))).filter(|(low, high)| low <= high);
        let family = self.family();
        shared.next().map(|(low, high)| (family.address(low), family.address(high)))
    }

    pub fn space(&self) -> &IpSpace {
        &self.space
    }

    /// Returns the subnet. Every assigned address gets its prefix length.
    pub fn subnet(&self) -> IpNet {
        self.subnet
    }

    /// Returns the gateway that pods get with an address of the pool; `None` if the pool has none.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    pub fn family(&self) -> IpFamily {
        IpFamily::of(self.subnet.addr())
    }

    /// Returns the number of assignable addresses, whether assigned or not.
    pub fn capacity(&self) -> u128 {
        self.ranges.iter().fold(0, |sum, (low, high)| sum.saturating_add(high - low).saturating_add(1))
    }

    /// Whether `address` is assignable.
    pub fn contains(&self, address: IpAddr) -> bool {
        IpFamily::of(address) == self.family() && contains_number(&self.ranges, ip_to_number(address))
    }

    /// Whether an owner of `address` may keep it.
    pub fn can_keep(&self, address: IpAddr) -> bool {
        IpFamily::of(address) == self.family() && contains_number(&self.keepable, ip_to_number(address))
    }

    /// Returns the number of blocks that contain at least one assignable address.
    pub(crate) fn block_count(&self) -> u128 {
        let mut counted = None;
        self.ranges.iter().fold(0, |sum, (low, high)| {
            let (from, to) = (low / SIZE, high / SIZE);
            let shared = u128::from(counted == Some(from));
            counted = Some(to);
            sum + (to - from + 1 - shared)
        })
    }

    /// Returns the first address of the block with this number, counted from 0 in ascending order.
    pub(crate) fn block_at(&self, mut index: u128) -> Option<IpAddr> {
        let mut counted = None;
        for (low, high) in &self.ranges {
            let (from, to) = (low / SIZE, high / SIZE);
            let from = from + u128::from(counted == Some(from));
            counted = Some(to);
            let blocks = (to + 1).saturating_sub(from);
            if index < blocks {
                return Some(self.family().address((from + index) * SIZE));
            }
            index -= blocks;
        }
        None
    }

    /// Returns the part of the space to list for the pool: its regions, or the whole space if there are many.
    pub(crate) fn scope(&self) -> BlockScope {
        let mut regions: Vec<IpAddr> = Vec::new();
        for (low, high) in self.ranges() {
            let (mut region, last) = (region_of(low), region_of(high));
            loop {
                if regions.last() != Some(&region) {
                    regions.push(region);
                }
                if regions.len() > MAX_LISTED_REGIONS {
                    return BlockScope { space: self.space.clone(), regions: Vec::new() };
                }
                if region == last {
                    break;
                }
                region = self.family().address(ip_to_number(region) + REGION_SIZE);
            }
        }
        BlockScope { space: self.space.clone(), regions }
    }

    /// Returns the first addresses of the pool's blocks in ascending order, starting with the block of `from` if it is
    /// set.
    pub(crate) fn blocks_from(&self, from: Option<IpAddr>) -> impl Iterator<Item = IpAddr> + '_ {
        let from = from.map_or(0, |address| ip_to_number(address) / SIZE);
        let mut last = None;
        let ranges = self.ranges.iter().map(|(low, high)| (low / SIZE, high / SIZE));
        ranges
            .filter(move |(_, high)| *high >= from)
            .flat_map(move |(low, high)| low.max(from)..=high)
            .filter(move |block| last.replace(*block) != Some(*block))
            .map(|block| self.family().address(block * SIZE))
    }

    /// Returns the IDs of the first and the last block in which owners may have addresses of the pool.
    pub(crate) fn block_span(&self) -> (IpBlockId, IpBlockId) {
        let id = |number: u128| IpBlockId {
            space: self.space.clone(),
            first: self.family().address(number - number % SIZE),
        };
        // `keepable` is never empty, because `new` rejects a pool without ranges.
        let low = self.keepable.first().map_or(0, |range| range.0);
        let high = self.keepable.last().map_or(0, |range| range.1);
        (id(low), id(high))
    }

    /// Returns, as a bit mask, the assignable offsets in the block that starts at `first`.
    pub(crate) fn offered_offsets(&self, first: IpAddr) -> u16 {
        offset_bits(&self.ranges, ip_to_number(first))
    }

    /// Whether the block that starts at `first` contains at least one address that its owner may keep.
    pub(crate) fn has_keepable_in(&self, first: IpAddr) -> bool {
        offset_bits(&self.keepable, ip_to_number(first)) != 0
    }
}

impl fmt::Display for AddressPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

const SIZE: u128 = IP_BLOCK_SIZE as u128;

/// Whether one of the intervals contains the number. The intervals must be sorted and disjoint.
fn contains_number(intervals: &[(u128, u128)], number: u128) -> bool {
    let after = intervals.partition_point(|(low, _)| *low <= number);
    after > 0 && number <= intervals[after - 1].1
}

/// Returns, as a bit mask, which of the sixteen numbers starting at `first` are in the intervals.
fn offset_bits(intervals: &[(u128, u128)], first: u128) -> u16 {
    let last = first + (SIZE - 1);
    let begin = intervals.partition_point(|(_, high)| *high < first);
    intervals[begin..].iter().take_while(|(low, _)| *low <= last).fold(0, |bits, (low, high)| {
        let (low, high) = (low.max(&first) - first, high.min(&last) - first);
        bits | ((u16::MAX << low) & (u16::MAX >> (15 - high)))
    })
}

/// Sorts inclusive intervals, merges those that overlap or touch, and drops empty ones.
pub(crate) fn merge(mut intervals: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
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

/// Subtracts the intervals `holes` from `from`. Both must be results of [`merge`].
pub(crate) fn subtract(from: Vec<(u128, u128)>, holes: &[(u128, u128)]) -> Vec<(u128, u128)> {
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
