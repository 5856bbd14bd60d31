//! Sixteen addresses in one object.

use crate::family::{IpFamily, ip_to_number};
use crate::ip_space::{IpSpace, address_slug};
use ferroband_model::PodRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How many addresses a granule has; its first address is a multiple of it.
pub const IP_BLOCK_SIZE: u8 = 16;

/// Which granule: the API server keeps one object of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpBlockId {
    /// The space its addresses are unique in.
    pub space: IpSpace,
    /// Its first address, used or not.
    pub first: IpAddr,
}

impl IpBlockId {
    /// The granule of `space` that `address` lies in, and the address's offset in it.
    pub fn containing(space: &IpSpace, address: IpAddr) -> (Self, u8) {
        let number = ip_to_number(address);
        let offset = (number % u128::from(IP_BLOCK_SIZE)) as u8;
        let first = IpFamily::of(address).address(number - u128::from(offset));
        (Self { space: space.clone(), first }, offset)
    }

    /// The name of its object, `<space>-<first address>`.
    pub fn object_name(&self) -> String {
        format!("{}-{}", self.space.slug(), address_slug(self.first))
    }

    /// Its address at `offset`.
    pub fn address(&self, offset: u8) -> IpAddr {
        IpFamily::of(self.first).address(ip_to_number(self.first) + u128::from(offset))
    }
}

/// A granule's contents, with the field names of the object's `spec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpBlock {
    /// The space its addresses are unique in.
    pub space: IpSpace,
    /// Its first address.
    pub first: IpAddr,
    /// The node that took it whole, ahead of need. Its free addresses are still anybody's in need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The assigned addresses by their offset.
    #[serde(default)]
    pub entries: BTreeMap<u8, AddressAllocation>,
}

impl IpBlock {
    /// An empty granule.
    pub fn new(id: IpBlockId, node: Option<String>) -> Self {
        Self { space: id.space, first: id.first, node, entries: BTreeMap::new() }
    }

    /// Which granule this is.
    pub fn id(&self) -> IpBlockId {
        IpBlockId { space: self.space.clone(), first: self.first }
    }

    /// The name of its object.
    pub fn object_name(&self) -> String {
        self.id().object_name()
    }

    /// Number of assigned addresses.
    pub fn used(&self) -> u8 {
        self.entries.len() as u8
    }

    /// Number of addresses that are not assigned, whether a pool offers them or not.
    pub fn free(&self) -> u8 {
        IP_BLOCK_SIZE.saturating_sub(self.used())
    }

    /// The address at `offset`.
    pub fn address(&self, offset: u8) -> IpAddr {
        IpFamily::of(self.first).address(ip_to_number(self.first) + u128::from(offset))
    }

    /// Assigned offsets as bits.
    pub(crate) fn assigned_offsets(&self) -> u16 {
        self.entries
            .keys()
            .filter(|offset| **offset < IP_BLOCK_SIZE)
            .fold(0, |bits, offset| bits | 1 << offset)
    }
}

/// One assigned address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressAllocation {
    /// The pod, `<namespace>/<name>`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Whether the address stays with the pod's name over re-creation, as for a StatefulSet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// The interface in the pod.
    pub interface: String,
    /// Which of the interface's addresses of this family, where it has several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ordinal: u8,
    /// The sandbox that has it; a release by another one frees nothing. Empty: none at present, the address waits for
    /// the next pod of that name.
    pub container: String,
    /// The node the sandbox is, or was, on.
    pub node: String,
    /// The pool it was given out from: a range, or the name of a SpiderIPPool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

impl AddressAllocation {
    /// Whether no sandbox has it at present: it is kept for the next pod of its name.
    pub fn is_reserved(&self) -> bool {
        self.container.is_empty()
    }

    /// Who owns the address, `first` being any address of its family.
    pub fn owner(&self, first: IpAddr) -> AllocationOwner {
        AllocationOwner {
            pod: OwnerPod::new(self.sticky, &self.pod, &self.uid),
            interface: self.interface.clone(),
            family: IpFamily::of(first),
            ordinal: self.ordinal,
        }
    }
}

/// Who an address belongs to: asking again as the same owner gives the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllocationOwner {
    /// The pod.
    pub pod: OwnerPod,
    /// The interface in the pod.
    pub interface: String,
    /// The family.
    pub family: IpFamily,
    /// Which of the interface's addresses of this family.
    pub ordinal: u8,
}

/// What identifies the pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnerPod {
    /// This very pod, by UID.
    Uid(String),
    /// Whatever pod has this `<namespace>/<name>`: those of a StatefulSet.
    Name(String),
}

impl OwnerPod {
    fn new(sticky: bool, pod: &str, uid: &str) -> Self {
        if sticky { Self::Name(pod.into()) } else { Self::Uid(uid.into()) }
    }

    /// The holder that `pod` is.
    pub fn of(pod: &PodRef, sticky: bool) -> Self {
        Self::new(sticky, &pod.to_string(), &pod.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_offsets() {
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
        // The short form of IPv6 would give both of these one name.
        let (a, b) = (name(&IpSpace::network("a-1"), "2::"), name(&IpSpace::network("a"), "1:2::"));
        assert_ne!(a, b);
    }

    #[test]
    fn the_serialized_form_is_the_spec_of_the_object() {
        let spec = json!({
            "space": "default", "first": "10.0.0.0", "node": "a",
            "entries": {"10": {"pod": "ns/p", "uid": "u", "interface": "net1", "container": "c", "node": "a"}},
        });
        let granule: IpBlock = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(granule.address(10).to_string(), "10.0.0.10");
        assert_eq!(serde_json::to_value(&granule).unwrap(), spec);
    }
}
