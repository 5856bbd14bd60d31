//! Neighbour table, which maps IP addresses to link-layer addresses (ip-neighbour(8)).

use super::RouteSocket;
use super::route_spec::{address_bytes, address_family};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use nix::libc::{NDA_DST, NDA_LLADDR, NUD_PERMANENT, RTM_NEWNEIGH};
use std::net::IpAddr;

impl RouteSocket {
    /// Adds or replaces a permanent neighbour entry.
    pub fn set_neighbour(&mut self, index: u32, address: IpAddr, link_layer: &[u8]) -> Result<(), Error> {
        let message = neighbour_message(index, address, link_layer);
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.request_on(format!("set neighbour {address} of"), index, message, flags, &[])
    }
}

/// Builds an RTM_NEWNEIGH message: struct ndmsg (family 1, padding 3, index 4, state 2, flags 1, type 1) and NDA_*
/// attributes of linux/neighbour.h.
fn neighbour_message(index: u32, address: IpAddr, link_layer: &[u8]) -> RawMessage {
    let mut head = [0; 12];
    head[0] = address_family(&address.into());
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    // A static entry is never resolved again.
    head[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    MessageBuilder::new(&head)
        .with(NDA_DST, &address_bytes(address))
        .with(NDA_LLADDR, link_layer)
        .build(RTM_NEWNEIGH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbour_message_matches_the_kernel_header() {
        let message = neighbour_message(7, "10.1.0.2".parse().unwrap(), &[2, 0, 0, 0, 0, 1]);
        let mut expected = vec![2, 0, 0, 0];
        expected.extend(7u32.to_ne_bytes());
        expected.extend(0x80u16.to_ne_bytes());
        expected.extend([0, 0]);
        expected.extend([8u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
        expected.extend([10, 1, 0, 2]);
        expected.extend([10u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
        expected.extend([2, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!((message.kind, message.payload), (28, expected));
    }
}
