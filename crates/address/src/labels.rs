//! Labels of address blocks. A node finds its blocks by them, without a list of all blocks.

use crate::block::IpBlockId;
use crate::ip_space::{IpFamily, IpSpace, ip_to_number};
use ferroband_model::fnv1a;
use std::net::IpAddr;

/// Prefix of the labels from [`node_label`].
const NODE_LABEL_PREFIX: &str = "node.ferroband.io/";

/// Label of blocks and indexes. Its value is from [`space_label`].
pub const SPACE_LABEL: &str = "ferroband.io/space";

/// Label of blocks. Its value is from [`region_label`].
pub const REGION_LABEL: &str = "ferroband.io/region";

/// Number of addresses in a region: 256 blocks.
pub(crate) const REGION_SIZE: u128 = 4096;

/// A part of a space that can be listed by label: some regions of 4096 addresses, or the whole space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockScope {
    pub space: IpSpace,
    /// First addresses of the regions; empty for the whole space.
    pub regions: Vec<IpAddr>,
}

impl BlockScope {
    pub fn covers(&self, id: &IpBlockId) -> bool {
        id.space == self.space && (self.regions.is_empty() || self.regions.contains(&region_of(id.first)))
    }

    /// Returns the label selector of the blocks in the scope. It may also select blocks of other spaces and regions.
    pub fn selector(&self) -> String {
        let label = |region: &IpAddr| region_label(&self.space, *region);
        match &self.regions[..] {
            [] => format!("{SPACE_LABEL}={}", space_label(&self.space)),
            [region] => format!("{REGION_LABEL}={}", label(region)),
            regions => {
                let labels: Vec<_> = regions.iter().map(label).collect();
                format!("{REGION_LABEL} in ({})", labels.join(","))
            }
        }
    }
}

/// Returns the first address of the region of `address`.
pub(crate) fn region_of(address: IpAddr) -> IpAddr {
    let number = ip_to_number(address);
    IpFamily::of(address).address(number - number % REGION_SIZE)
}

/// Returns the value of [`REGION_LABEL`] for the region of `address` in a space. Another region can have the same value.
pub fn region_label(space: &IpSpace, address: IpAddr) -> String {
    let region = format!("{}/{}", space.slug(), region_of(address));
    format!("{:016x}", fnv1a(region.bytes()))
}

/// Returns the label key of the blocks that `node` has claimed or has entries in. The value is empty. The name is
/// hashed because node names are longer than label keys may be, so blocks of another node can have the same label.
pub fn node_label(node: &str) -> String {
    format!("{NODE_LABEL_PREFIX}{:016x}", fnv1a(node.bytes()))
}

/// Returns the value of [`SPACE_LABEL`] for a space. Another space can have the same value.
pub fn space_label(space: &IpSpace) -> String {
    format!("{:016x}", fnv1a(space.slug().bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_stable_valid_and_differ() {
        // Objects in etcd have these labels, so a change of the hash would hide them.
        assert_eq!(node_label("foobar"), "node.ferroband.io/85944171f73967e8");
        let labels: BTreeSet<_> = (0..20_000).map(|n| node_label(&format!("node-{n}.example.org"))).collect();
        assert_eq!(labels.len(), 20_000);
        assert!(labels.iter().all(|label| label.len() == NODE_LABEL_PREFIX.len() + 16));
        assert_ne!(space_label(&IpSpace::default_space()), space_label(&IpSpace::network("a")));
    }

    #[test]
    fn scope_covers_the_blocks_of_its_regions() {
        let space = IpSpace::default_space();
        let id = |address: [u8; 4]| IpBlockId::containing(&space, address.into()).0;
        let mut scope = BlockScope { space: space.clone(), regions: vec![[10, 0, 16, 0].into()] };
        assert!(scope.covers(&id([10, 0, 16, 0])) && scope.covers(&id([10, 0, 31, 255])));
        assert!(!scope.covers(&id([10, 0, 15, 255])) && !scope.covers(&id([10, 0, 32, 0])));
        let label = region_label(&space, [10, 0, 20, 1].into());
        assert_eq!(scope.selector(), format!("ferroband.io/region={label}"));
        scope.regions.push([10, 0, 32, 0].into());
        let second = region_label(&space, [10, 0, 32, 0].into());
        assert_eq!(scope.selector(), format!("ferroband.io/region in ({label},{second})"));
        assert_ne!(label, region_label(&IpSpace::network("a"), [10, 0, 20, 1].into()));
        scope.regions.clear();
        assert!(scope.covers(&id([10, 9, 0, 0])) && !scope.selector().contains("region"));
    }
}
