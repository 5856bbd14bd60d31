//! Neighbours: which link-layer address an address has (ip-neighbour(8)).

use super::Route;
use super::path::{bytes, family};
use crate::Error;
use crate::netlink::{Body, Message};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use nix::errno::Errno;
use std::net::IpAddr;

/// RTM_NEWNEIGH and RTM_DELNEIGH of linux/rtnetlink.h.
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
/// NUD_PERMANENT of linux/neighbour.h: said by an administrator, never asked for again.
const PERMANENT: u16 = 0x80;

impl Route {
    /// Says for good that `address` is at `link_layer` on the interface.
    pub fn set_neighbour(&mut self, index: u32, address: IpAddr, link_layer: &[u8]) -> Result<(), Error> {
        let message = neighbour(RTM_NEWNEIGH, index, address, Some(link_layer));
        match self.socket.request(message, NLM_F_CREATE | NLM_F_REPLACE) {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.refused(format!("set the neighbour {address} of"), index, failure)),
        }
    }

    /// Forgets where `address` is. One that is not known is forgotten.
    pub fn remove_neighbour(&mut self, index: u32, address: IpAddr) -> Result<(), Error> {
        match self.socket.request(neighbour(RTM_DELNEIGH, index, address, None), 0) {
            Ok(_) => Ok(()),
            Err(failure) if matches!(failure.errno(), Some(Errno::ENOENT | Errno::ENODEV)) => Ok(()),
            Err(failure) => Err(self.refused(format!("forget the neighbour {address} of"), index, failure)),
        }
    }
}

/// struct ndmsg (family 1, padding 3, index 4, state 2, flags 1, type 1) and NDA_* of linux/neighbour.h.
fn neighbour(kind: u16, index: u32, address: IpAddr, link_layer: Option<&[u8]>) -> Message {
    let mut head = [0; 12];
    head[0] = family(&address.into());
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..10].copy_from_slice(&PERMANENT.to_ne_bytes());
    Body::new(&head).with(1, &bytes(address)).with_some(2, link_layer).message(kind) // NDA_DST, NDA_LLADDR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_header() {
        let message = neighbour(RTM_NEWNEIGH, 7, "10.1.0.2".parse().unwrap(), Some(&[2, 0, 0, 0, 0, 1]));
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
