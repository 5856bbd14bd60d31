//! Neighbours: which link-layer address an address has (ip-neighbour(8)).

use super::RouteSocket;
use super::route_spec::{address_bytes, address_family};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use nix::errno::Errno;
use std::net::IpAddr;

/// RTM_NEWNEIGH and RTM_DELNEIGH of linux/rtnetlink.h.
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
/// NUD_PERMANENT of linux/neighbour.h: said by an administrator, never asked for again.
const NUD_PERMANENT: u16 = 0x80;

impl RouteSocket {
    /// Says for good that `address` is at `link_layer` on the interface.
    pub fn set_neighbour(&mut self, index: u32, address: IpAddr, link_layer: &[u8]) -> Result<(), Error> {
        let message = neighbour_message(RTM_NEWNEIGH, index, address, Some(link_layer));
        match self.socket.request(message, NLM_F_CREATE | NLM_F_REPLACE) {
            Ok(_) => Ok(()),
            Err(failure) => {
                Err(self.interface_error(format!("set the neighbour {address} of"), index, failure))
            }
        }
    }

    /// Forgets where `address` is. One that is not known is forgotten.
    pub fn remove_neighbour(&mut self, index: u32, address: IpAddr) -> Result<(), Error> {
        match self.socket.request(neighbour_message(RTM_DELNEIGH, index, address, None), 0) {
            Ok(_) => Ok(()),
            Err(failure) if matches!(failure.errno(), Some(Errno::ENOENT | Errno::ENODEV)) => Ok(()),
            Err(failure) => {
                Err(self.interface_error(format!("forget the neighbour {address} of"), index, failure))
            }
        }
    }
}

/// struct ndmsg (family 1, padding 3, index 4, state 2, flags 1, type 1) and NDA_* of linux/neighbour.h.
fn neighbour_message(kind: u16, index: u32, address: IpAddr, link_layer: Option<&[u8]>) -> RawMessage {
    let mut head = [0; 12];
    head[0] = address_family(&address.into());
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    MessageBuilder::new(&head).with(1, &address_bytes(address)).with_optional(2, link_layer).build(kind) // NDA_DST, NDA_LLADDR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_header() {
        let message =
            neighbour_message(RTM_NEWNEIGH, 7, "10.1.0.2".parse().unwrap(), Some(&[2, 0, 0, 0, 0, 1]));
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
