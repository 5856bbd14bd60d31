//! Address blocks: sixteen addresses in one API object.

use crate::ip_space::{IpFamily, IpSpace, address_slug, ip_to_number};
use ferroband_model::PodRef;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Number of addresses in a block. The first address of a block is a multiple of it.
pub const IP_BLOCK_SIZE: u8 = 16;

/// Identifies a block and its API object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpBlockId {
    /// IP space that the addresses belong to.
    pub space: IpSpace,
    /// First address of the block, whether or not a pool offers it.
    pub first: IpAddr,
}

impl IpBlockId {
    /// Returns the block of `space` that contains `address`, and the offset of the address.
    pub fn containing(space: &IpSpace, address: IpAddr) -> (Self, u8) {
        let number = ip_to_number(address);
        let offset = (number % u128::from(IP_BLOCK_SIZE)) as u8;
        let first = IpFamily::of(address).address(number - u128::from(offset));
        (Self { space: space.clone(), first }, offset)
    }

    /// Returns the name of the API object, `<space>-<first address>`.
    pub fn object_name(&self) -> String {
        format!("{}-{}", self.space.slug(), address_slug(self.first))
    }

    /// Returns the address at `offset` (0 to 15) from the first address of the block.
    pub fn address(&self, offset: u8) -> IpAddr {
        IpFamily::of(self.first).address(ip_to_number(self.first) + u128::from(offset))
    }
}

/// Contents of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpBlock {
    /// IP space that the addresses belong to.
    pub space: IpSpace,
    pub first: IpAddr,
    /// Node that has claimed the block in advance. Other nodes use free addresses of the block only when the
    /// pool has no others.
    pub node: Option<String>,
    /// Allocations by offset from `first`, 0 to 15.
    pub entries: BTreeMap<u8, AddressAllocation>,
}

impl IpBlock {
    pub fn new(id: IpBlockId, node: Option<String>) -> Self {
        Self { space: id.space, first: id.first, node, entries: BTreeMap::new() }
    }

    pub fn id(&self) -> IpBlockId {
        IpBlockId { space: self.space.clone(), first: self.first }
    }

    pub fn object_name(&self) -> String {
        self.id().object_name()
    }

    /// Returns the number of assigned addresses, including reserved ones.
    pub fn used(&self) -> u8 {
        self.entries.len() as u8
    }

    /// Returns the address at `offset` (0 to 15) from the first address of the block.
    pub fn address(&self, offset: u8) -> IpAddr {
        IpFamily::of(self.first).address(ip_to_number(self.first) + u128::from(offset))
    }

    /// Whether the node has claimed the block or has an entry in it.
    pub fn is_used_by(&self, node: &str) -> bool {
        self.node.as_deref() == Some(node) || self.entries.values().any(|entry| entry.node == node)
    }

    /// Returns the assigned offsets as a bit mask.
    pub(crate) fn assigned_offsets(&self) -> u16 {
        self.entries
            .keys()
            .filter(|offset| **offset < IP_BLOCK_SIZE)
            .fold(0, |bits, offset| bits | 1 << offset)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressAllocation {
    /// Pod that owns the address, `<namespace>/<name>`.
    pub pod: String,
    pub uid: String,
    /// Whether the address stays with the pod name when the pod is re-created, as for a StatefulSet.
    pub sticky: bool,
    /// Interface name in the pod.
    pub interface: String,
    /// Index of the address among the interface's addresses of this family.
    pub ordinal: u8,
    /// Sandbox that uses the address. A release for another sandbox has no effect. Empty if the address is
    /// reserved for the next pod with the same name.
    pub container: String,
    /// Node of the current or last sandbox.
    pub node: String,
    /// Pool that the address was assigned from: a range, or the name of a SpiderIPPool.
    pub pool: String,
}

impl AddressAllocation {
    /// Whether no sandbox uses the address and it is reserved for the next pod with the same name.
    pub fn is_reserved(&self) -> bool {
        self.container.is_empty()
    }

    /// Returns the owner of the address. `first` supplies the address family and may be any address of the block.
    pub fn owner(&self, first: IpAddr) -> AllocationOwner {
        AllocationOwner {
            pod: OwnerPod::new(self.sticky, &self.pod, &self.uid),
            interface: self.interface.clone(),
            family: IpFamily::of(first),
            ordinal: self.ordinal,
        }
    }
}

/// Owner of an address. Repeated requests of one owner return the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllocationOwner {
    /// Pod, by UID or, for a sticky address, by name.
    pub pod: OwnerPod,
    /// Interface name in the pod.
    pub interface: String,
    pub family: IpFamily,
    /// Index of the address among the interface's addresses of this family.
    pub ordinal: u8,
}

/// How the pod of an owner is identified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnerPod {
    /// One pod, by UID. A new pod with the same name is another owner.
    Uid(String),
    /// Any pod with this `<namespace>/<name>`, for pods of a StatefulSet.
    Name(String),
}

impl OwnerPod {
    fn new(sticky: bool, pod: &str, uid: &str) -> Self {
        if sticky { Self::Name(pod.into()) } else { Self::Uid(uid.into()) }
    }

    /// Returns the identity of `pod`: its name if `sticky`, otherwise its UID.
    pub fn of(pod: &PodRef, sticky: bool) -> Self {
        Self::new(sticky, &pod.to_string(), &pod.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_names_are_unique_and_offsets_match_addresses() {
        let name = |space: &IpSpace, address: &str| {
            let (id, offset) = IpBlockId::containing(space, address.parse().unwrap());
            assert_eq!(id.address(offset).to_string(), address);
            (id.object_name(), offset)
        };
        assert_eq!(name(&IpSpace::default_space(), "192.168.0.17"), ("default-192.168.0.16".into(), 1));
        assert_eq!(
            name(&IpSpace::network("rail-1"), "2001:db8::5"),
            ("rail-1-2001-0db8-0000-0000-0000-0000-0000-0000".into(), 5)
        );
        // With compressed IPv6 addresses, both blocks would have the same object name.
        let (a, b) = (name(&IpSpace::network("a-1"), "2::"), name(&IpSpace::network("a"), "1:2::"));
        assert_ne!(a, b);
    }

    #[test]
    fn offset_outside_of_the_block_is_not_an_assigned_address() {
        let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
        let entries = [0, 15, 16, 255].map(|offset| (offset, AddressAllocation::default()));
        let block = IpBlock { entries: entries.into(), ..IpBlock::new(id, None) };
        assert_eq!(block.assigned_offsets(), 0x8001);
    }
}
