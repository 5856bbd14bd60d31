//! Addresses of interfaces.

use super::Route;
use crate::Error;
use crate::netlink::{Message, wire};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;

/// RTM_NEWADDR of linux/rtnetlink.h.
const RTM_NEWADDR: u16 = 20;
/// struct ifaddrmsg: family 1, prefix length 1, flags 1, scope 1, index 4.
const HEAD: usize = 8;

impl Route {
    /// Gives the interface an address. The same address with the same prefix length, already there, is
    /// success; with another prefix length it is not.
    pub fn add_address(&mut self, index: u32, address: IpNet) -> Result<(), Error> {
        let message = RouteNetlinkMessage::NewAddress(message(index, address));
        match self.socket.request(message, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(_) => Ok(()),
            Err(failure) => {
                let there =
                    failure.errno() == Some(Errno::EEXIST) && self.addresses(index)?.contains(&address);
                if there {
                    Ok(())
                } else {
                    Err(self.refused(format!("add address {address} to"), index, failure))
                }
            }
        }
    }

    /// The addresses of the interface, both families, the kernel's own link-local ones included.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<IpNet>, Error> {
        let mut question = AddressMessage::default();
        // Older kernels ignore the index here and answer for all interfaces.
        question.header.index = index;
        match self.socket.dump(RouteNetlinkMessage::GetAddress(question)) {
            Ok(answers) => Ok(answers.iter().filter_map(|answer| decode(answer, index)).collect()),
            Err(failure) => Err(self.refused("list the addresses of", index, failure)),
        }
    }
}

fn message(index: u32, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.header.prefix_len = address.prefix_len();
    message.header.family = match address {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    message.attributes.push(AddressAttribute::Local(address.addr()));
    message.attributes.push(AddressAttribute::Address(address.addr()));
    if let IpNet::V4(v4) = address
        && v4.prefix_len() < 31
    {
        message.attributes.push(AddressAttribute::Broadcast(v4.broadcast()));
    }
    message
}

/// By IFA_* of linux/if_addr.h.
fn decode(answer: &Message, index: u32) -> Option<IpNet> {
    let head = answer.head::<HEAD>(RTM_NEWADDR)?;
    if wire::u32(&head[4..])? != index {
        return None;
    }
    let find = |wanted| answer.attributes(HEAD).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    // IFA_LOCAL is the interface's own address; IPv6 sends only IFA_ADDRESS unless there is a peer.
    let address = find(2).or_else(|| find(1)).and_then(wire::ip)?;
    IpNet::new(address, head[1]).ok()
}
