//! Addresses of interfaces, and the neighbour table, which maps IP addresses to link-layer addresses (ip-neighbour(8)).

use super::RouteSocket;
use super::route_spec::{address_bytes, address_family};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use nix::errno::Errno;
use nix::libc::{
    IFA_ADDRESS, IFA_BROADCAST, IFA_LOCAL, NDA_DST, NDA_LLADDR, NUD_PERMANENT, RTM_GETADDR, RTM_NEWADDR,
    RTM_NEWNEIGH,
};
use std::net::IpAddr;

/// Length of struct ifaddrmsg in bytes: family 1, prefix length 1, flags 1, scope 1, index 4.
const HEAD: usize = 8;

impl RouteSocket {
    /// Adds an address to the interface. Succeeds if the address exists with the same prefix length. If it
    /// exists with another prefix length, IPv6 returns an error, and IPv4 adds it.
    pub fn add_address(&mut self, index: u32, address: IpNet) -> Result<(), Error> {
        match self.socket.request(new_address_message(index, address), NLM_F_CREATE | NLM_F_EXCL) {
            Ok(_) => Ok(()),
            Err(failure) => {
                let exists =
                    failure.errno() == Some(Errno::EEXIST) && self.addresses(index)?.contains(&address);
                if exists {
                    Ok(())
                } else {
                    Err(self.interface_error(format!("add address {address} to"), index, failure))
                }
            }
        }
    }

    /// Addresses of the interface for IPv4 and IPv6, including link-local addresses.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<IpNet>, Error> {
        // Older kernels ignore the index and return the addresses of all interfaces, so `decode` selects
        // those of this one.
        let request = MessageBuilder::new(&head(0, 0, index)).build(RTM_GETADDR);
        match self.socket.dump(request) {
            Ok(replies) => Ok(replies.iter().filter_map(|reply| decode(reply, index)).collect()),
            Err(failure) => Err(self.interface_error("list the addresses of", index, failure)),
        }
    }
}

fn head(family: u8, prefix: u8, index: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    (head[0], head[1]) = (family, prefix);
    head[4..].copy_from_slice(&index.to_ne_bytes());
    head
}

fn new_address_message(index: u32, address: IpNet) -> RawMessage {
    let broadcast = match address {
        IpNet::V4(v4) if v4.prefix_len() < 31 => Some(v4.broadcast().octets()),
        _ => None,
    };
    MessageBuilder::new(&head(address_family(&address), address.prefix_len(), index))
        .with(IFA_LOCAL, &address_bytes(address.addr()))
        .with(IFA_ADDRESS, &address_bytes(address.addr()))
        .with_optional(IFA_BROADCAST, broadcast)
        .build(RTM_NEWADDR)
}

/// Decodes an address of the interface `index`. Returns `None` for another interface.
pub(super) fn decode(reply: &RawMessage, index: u32) -> Option<IpNet> {
    let head = reply.head::<HEAD>(RTM_NEWADDR)?;
    if attr::u32(&head[4..])? != index {
        return None;
    }
    let find = |attribute| reply.attribute(HEAD, attribute);
    // IFA_LOCAL is the interface's own address; IPv6 sends only IFA_ADDRESS unless there is a peer.
    let address = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS)).and_then(attr::ip)?;
    IpNet::new(address, head[1]).ok()
}

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
mod tests;
