//! Where the addresses of a StatefulSet pod are.

use crate::block::IpBlockId;
use crate::block_view::ResourceVersion;
use crate::ip_space::{IpFamily, IpSpace};
use std::net::IpAddr;

/// An address that is kept for the pods of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StickyAddress {
    /// Interface name in the pod.
    pub interface: String,
    /// Index of the address among the interface's addresses of this family.
    pub ordinal: u8,
    pub space: IpSpace,
    pub address: IpAddr,
}

/// The pointers of one pod name to its addresses. An address belongs to the pod only if its block entry says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StickyRecord {
    pub addresses: Vec<StickyAddress>,
    /// Version of the object; `None` if it does not exist.
    pub version: Option<ResourceVersion>,
}

impl StickyAddress {
    fn place(&self) -> (&str, u8, IpFamily) {
        (&self.interface, self.ordinal, IpFamily::of(self.address))
    }
}

impl StickyRecord {
    /// Returns the blocks of the addresses.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = IpBlockId> {
        self.addresses.iter().map(|sticky| IpBlockId::containing(&sticky.space, sticky.address).0)
    }

    /// Replaces the pointers for the same interface, ordinal and family. Returns whether the record has changed.
    pub fn set(&mut self, address: StickyAddress) -> bool {
        if self.addresses.contains(&address) {
            return false;
        }
        self.addresses.retain(|known| known.place() != address.place());
        self.addresses.push(address);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_replaces_the_one_of_the_same_interface_ordinal_and_family() {
        let sticky = |interface: &str, ordinal, address: &str| StickyAddress {
            interface: interface.into(),
            ordinal,
            space: IpSpace::default_space(),
            address: address.parse().unwrap(),
        };
        let mut record = StickyRecord::default();
        assert!(record.set(sticky("net1", 0, "10.0.0.1")));
        assert!(record.set(sticky("net1", 0, "fd00::1")) && record.set(sticky("net2", 0, "10.0.0.2")));
        assert!(!record.set(sticky("net1", 0, "10.0.0.1")), "already there");
        assert!(record.set(sticky("net1", 0, "10.0.0.17")));
        let blocks: Vec<_> = record.blocks().map(|id| id.object_name()).collect();
        assert_eq!(blocks.len(), 3);
        assert!(blocks.contains(&"default-10.0.0.16".into()), "{blocks:?}");
    }
}
