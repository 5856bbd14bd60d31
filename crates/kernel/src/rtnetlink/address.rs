//! Addresses of interfaces.

use super::RouteSocket;
use super::route_spec::{address_bytes, address_family};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use nix::errno::Errno;

/// RTM_NEWADDR and RTM_GETADDR of linux/rtnetlink.h.
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
/// struct ifaddrmsg: family 1, prefix length 1, flags 1, scope 1, index 4.
const HEAD: usize = 8;

impl RouteSocket {
    /// Gives the interface an address. The same address with the same prefix length, already there, is
    /// success; with another prefix length it is not.
    pub fn add_address(&mut self, index: u32, address: IpNet) -> Result<(), Error> {
        match self.socket.request(new_address_message(index, address), NLM_F_CREATE | NLM_F_EXCL) {
            Ok(_) => Ok(()),
            Err(failure) => {
                let there =
                    failure.errno() == Some(Errno::EEXIST) && self.addresses(index)?.contains(&address);
                if there {
                    Ok(())
                } else {
                    Err(self.interface_error(format!("add address {address} to"), index, failure))
                }
            }
        }
    }

    /// The addresses of the interface, both families, the kernel's own link-local ones included.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<IpNet>, Error> {
        // Older kernels ignore the index here and answer for all interfaces.
        let question = MessageBuilder::new(&head(0, 0, index)).build(RTM_GETADDR);
        match self.socket.dump(question) {
            Ok(answers) => Ok(answers.iter().filter_map(|answer| decode(answer, index)).collect()),
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

/// By IFA_* of linux/if_addr.h.
fn new_address_message(index: u32, address: IpNet) -> RawMessage {
    let broadcast = match address {
        IpNet::V4(v4) if v4.prefix_len() < 31 => Some(v4.broadcast().octets()),
        _ => None,
    };
    MessageBuilder::new(&head(address_family(&address), address.prefix_len(), index))
        .with(2, &address_bytes(address.addr())) // IFA_LOCAL
        .with(1, &address_bytes(address.addr())) // IFA_ADDRESS
        .with_optional(4, broadcast) // IFA_BROADCAST
        .build(RTM_NEWADDR)
}

/// By IFA_* of linux/if_addr.h.
pub(super) fn decode(answer: &RawMessage, index: u32) -> Option<IpNet> {
    let head = answer.head::<HEAD>(RTM_NEWADDR)?;
    if attr::u32(&head[4..])? != index {
        return None;
    }
    let find = |wanted| answer.attributes(HEAD).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    // IFA_LOCAL is the interface's own address; IPv6 sends only IFA_ADDRESS unless there is a peer.
    let address = find(2).or_else(|| find(1)).and_then(attr::ip)?;
    IpNet::new(address, head[1]).ok()
}
