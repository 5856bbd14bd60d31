//! IPPools and OverlappingRangeIPReservations that show the addresses of Whereabouts ranges. Does no I/O.

use super::foreign_records::is_placeholder;
use ferroband_address::{
    AddressAllocation, IpBlock, IpSpace,
    whereabouts::{allocation_key, reservation_name},
};
use ferroband_api::whereabouts::{IPPool, IPPoolSpec, IpAllocation, OverlappingRangeIPReservationSpec};
use kube::ResourceExt;
use std::collections::{BTreeMap, HashMap};

/// Annotation of an IPPool with the number of assigned addresses, if there are too many to list.
pub const COUNT_ANNOTATION: &str = "ferroband.io/assigned-addresses";

/// An IPPool to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectedPool {
    pub spec: IPPoolSpec,
    /// Number of assigned addresses if they are not listed.
    pub count: Option<usize>,
}

impl ProjectedPool {
    pub fn from_object(object: IPPool) -> Self {
        let count = object.annotations().get(COUNT_ANNOTATION).and_then(|count| count.parse().ok());
        Self { spec: object.spec, count }
    }
}

/// The objects to publish, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectedObjects {
    pub pools: BTreeMap<String, ProjectedPool>,
    pub reservations: BTreeMap<String, OverlappingRangeIPReservationSpec>,
}

/// Returns the objects that show the entries of `blocks`. A range with more than `limit` entries shows only their number,
/// and with the limit 0 nothing is shown.
pub fn project<'a>(blocks: impl Iterator<Item = &'a IpBlock> + Clone, limit: usize) -> ProjectedObjects {
    let mut projected = ProjectedObjects::default();
    if limit == 0 {
        return projected;
    }
    let shown = |entry: &&AddressAllocation| entry.pool.contains('/') && !is_placeholder(entry);
    let mut used: HashMap<(&IpSpace, &str), usize> = HashMap::new();
    for block in blocks.clone() {
        for entry in block.entries.values().filter(shown) {
            *used.entry((&block.space, &entry.pool)).or_default() += 1;
        }
    }
    for block in blocks {
        for (offset, entry) in block.entries.iter().filter(|(_, entry)| shown(entry)) {
            let count = used.get(&(&block.space, entry.pool.as_str())).copied().unwrap_or_default();
            let is_listed = count <= limit;
            if !is_listed && count == 0 {
                continue;
            }
            let address = block.address(*offset);
            let Some(key) = allocation_key(&block.space, &entry.pool, address) else { continue };
            let pool = projected.pools.entry(key.name).or_insert_with(|| ProjectedPool {
                spec: IPPoolSpec { range: key.range, allocations: BTreeMap::new() },
                count: None,
            });
            if !is_listed {
                // The number is added once for all entries of the range.
                let counted = used.insert((&block.space, &entry.pool), usize::MAX);
                if counted != Some(usize::MAX) {
                    pool.count = Some(pool.count.unwrap_or_default() + count);
                }
                continue;
            }
            let allocation = IpAllocation {
                id: entry.container.clone(),
                podref: entry.pod.clone(),
                ifname: Some(entry.interface.clone()),
            };
            pool.spec.allocations.insert(key.offset, allocation);
            if let Some(name) = reservation_name(&block.space, address) {
                let spec = OverlappingRangeIPReservationSpec {
                    podref: entry.pod.clone(),
                    ifname: Some(entry.interface.clone()),
                    containerid: None,
                };
                projected.reservations.insert(name, spec);
            }
        }
    }
    projected
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::IpBlockId;

    fn block(first: u8, count: u8, pool: &str, node: &str) -> IpBlock {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, first].into());
        let mut block = IpBlock::new(id, None);
        for offset in 0..count {
            let entry = AddressAllocation {
                pod: "ns/p".into(),
                container: "c".into(),
                interface: "net1".into(),
                node: node.into(),
                pool: pool.into(),
                ..AddressAllocation::default()
            };
            block.entries.insert(offset, entry);
        }
        block
    }

    // Case: ipam W01
    #[test]
    fn a_range_shows_its_addresses_up_to_the_limit_and_then_their_number() {
        let blocks =
            [block(0, 16, "10.0.0.0/24", "n"), block(16, 4, "10.0.0.0/24", "n"), block(32, 3, "pool", "n")];
        let shown = project(blocks.iter(), 20);
        let pool = &shown.pools["10.0.0.0-24"];
        assert_eq!((pool.spec.allocations.len(), pool.count, shown.reservations.len()), (20, None, 20));
        assert_eq!(pool.spec.allocations["17"].podref, "ns/p");
        assert!(shown.reservations.contains_key("10.0.0.17"));
        let counted = project(blocks.iter(), 19);
        let pool = &counted.pools["10.0.0.0-24"];
        assert_eq!((pool.spec.allocations.len(), pool.count, counted.reservations.len()), (0, Some(20), 0));
        assert_eq!(project(blocks.iter(), 0), ProjectedObjects::default(), "switched off");
    }

    #[test]
    fn withheld_addresses_are_shown_by_whoever_recorded_them() {
        let withheld = [block(0, 3, "10.0.0.0/24", "")];
        assert_eq!(project(withheld.iter(), 20), ProjectedObjects::default());
    }
}
