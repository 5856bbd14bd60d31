//! GUIDs and LIDs of a simulated node.

use ferroband_model::{Guid, fnv1a};

/// The first two bytes of all simulated GUIDs: 02 marks a locally administered EUI-64, so no vendor uses them.
const PREFIX: u64 = 0x02fb;

/// Identifiers of a node on the fabric, derived from a seed (the node's name): stable across restarts and different
/// on every node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimIdentity {
    hash: u64,
}

impl SimIdentity {
    pub(crate) fn new(seed: &str) -> Self {
        Self { hash: mix(fnv1a(seed.bytes())) }
    }

    /// Node GUID of the adapter at position `hca` of the profile.
    pub(crate) fn node_guid(self, hca: usize) -> Guid {
        self.guid(hca, 0)
    }

    /// GUID of port `port`, counted from 1, of the adapter at position `hca` of the profile.
    pub(crate) fn port_guid(self, hca: usize, port: usize) -> Guid {
        self.guid(hca, port)
    }

    /// LID of port `port`, counted from 1, of the adapter at position `hca` of the profile.
    pub(crate) fn lid(self, hca: usize, port: usize) -> u16 {
        lid(self.guid(hca, port))
    }

    /// Default GUID of virtual function `vf` of an adapter in Ethernet mode.
    pub(crate) fn vf_guid(self, hca: usize, vf: usize) -> Guid {
        Guid::new(PREFIX << 48 | mix(self.guid(hca, 0).value() ^ (vf as u64 + 1) << 40) & 0xffff_ffff_ffff)
    }

    /// Builds a GUID from two bytes of prefix, five bytes derived from the node, and one byte for the adapter
    /// (up to 32) and the port (up to 7).
    fn guid(self, hca: usize, port: usize) -> Guid {
        let position = (hca as u64 & 0x1f) << 3 | (port as u64 & 0x7);
        Guid::new(PREFIX << 48 | (self.hash & 0xff_ffff_ffff) << 8 | position)
    }
}

/// The LID that a subnet manager assigns to the port with this GUID, in the unicast range 1 to 0xbfff.
pub(crate) fn lid(guid: Guid) -> u16 {
    u16::try_from(mix(guid.value()) % 0xbfff).unwrap_or_default() + 1
}

/// SplitMix64's finalizer: similar seeds give completely different numbers.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn same_seed_gives_the_same_guids() {
        assert_eq!(SimIdentity::new("node-1").node_guid(0), SimIdentity::new("node-1").node_guid(0));
        assert_eq!(SimIdentity::new("node-1").lid(0, 1), SimIdentity::new("node-1").lid(0, 1));
    }

    #[test]
    fn guids_of_ten_thousand_nodes_are_unique() {
        let guids: BTreeSet<_> = (0..10_000)
            .map(|node| SimIdentity::new(&format!("node-{node}")))
            .flat_map(|node| (0..8).flat_map(move |hca| [node.node_guid(hca), node.port_guid(hca, 1)]))
            .collect();
        assert_eq!(guids.len(), 160_000);
    }

    #[test]
    fn guids_are_locally_administered_and_lids_are_unicast() {
        for node in 0..1000 {
            let node = SimIdentity::new(&format!("node-{node}"));
            assert_eq!(node.port_guid(0, 1).bytes()[..2], [0x02, 0xfb]);
            assert!((1..=0xbfff).contains(&node.lid(0, 1)));
        }
    }
}
