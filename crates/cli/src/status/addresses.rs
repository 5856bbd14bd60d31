//! Counts the addresses in use, for the address table of `ferroband status`.

use super::ClusterObjects;
use super::report::AddressSpaceRow;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Returns one row for each IP space and one for each SpiderIPPool, with counts from the AddressBlocks. The status of a
/// pool lags behind, so that only the size of the pool is read from it.
pub fn address_rows(objects: &ClusterObjects) -> Vec<AddressSpaceRow> {
    let mut spaces: BTreeMap<String, AddressSpaceRow> = BTreeMap::new();
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    for block in &objects.blocks {
        if block.spec.space == "default" {
            for entry in block.spec.entries.values() {
                *used.entry(&entry.pool).or_default() += 1;
            }
        }
        let space = spaces.entry(format!("space {}", block.spec.space)).or_default();
        space.used += block.spec.entries.len() as u64;
        *space.blocks.get_or_insert(0) += 1;
    }
    for pool in &objects.pools {
        let status = pool.status.as_ref();
        let number = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
        let space = spaces.entry(format!("pool {}", pool.name_any())).or_default();
        space.subnet = Some(pool.spec.subnet.clone());
        space.used = used.get(pool.name_any().as_str()).copied().unwrap_or_default();
        space.total = number(status.and_then(|status| status.total_ip_count));
    }
    spaces.into_iter().map(|(name, space)| AddressSpaceRow { name, ..space }).collect()
}
