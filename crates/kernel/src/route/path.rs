//! Routes through interfaces.

use super::Route;
use super::wire::{self, Message};
use crate::Error;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use nix::libc::{AF_INET, AF_INET6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RTM_NEWROUTE of linux/rtnetlink.h.
const RTM_NEWROUTE: u16 = 24;
/// struct rtmsg: family, two prefix lengths, tos, table, protocol, scope, type, 1 each; flags 4.
const HEAD: usize = 12;
/// RTN_UNICAST of linux/rtnetlink.h.
const RTN_UNICAST: u8 = 1;

/// A unicast route of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where to.
    pub destination: IpNet,
    /// Through whom; nobody when the destination is on the link.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// Adds a route through the interface. The same route, already there, is success; another one to the same
    /// destination is not.
    pub fn add_route(
        &mut self,
        index: u32,
        destination: IpNet,
        gateway: Option<IpAddr>,
    ) -> Result<(), Error> {
        let path = Path { destination: destination.trunc(), gateway };
        let message = RouteNetlinkMessage::NewRoute(path.message(index));
        match self.socket.request(message, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(_) => Ok(()),
            Err(failure) => {
                let there = failure.errno() == Some(Errno::EEXIST) && self.routes(index)?.contains(&path);
                if there {
                    Ok(())
                } else {
                    Err(self.refused(format!("add a {path} through"), index, failure))
                }
            }
        }
    }

    /// The unicast routes of the main table through the interface.
    pub fn routes(&mut self, index: u32) -> Result<Vec<Path>, Error> {
        match self.socket.dump(RouteNetlinkMessage::GetRoute(RouteMessage::default())) {
            Ok(answers) => Ok(answers.iter().filter_map(|answer| Path::decode(answer, index)).collect()),
            Err(failure) => Err(self.refused("list the routes through", index, failure)),
        }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "route to {}", self.destination)?;
        self.gateway.map_or(Ok(()), |gateway| write!(f, " via {gateway}"))
    }
}

impl Path {
    fn message(&self, index: u32) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: match self.destination {
                IpNet::V4(_) => AddressFamily::Inet,
                IpNet::V6(_) => AddressFamily::Inet6,
            },
            destination_prefix_length: self.destination.prefix_len(),
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: match self.gateway {
                Some(_) => RouteScope::Universe,
                None => RouteScope::Link,
            },
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let destination = self.destination.addr();
        message.attributes.push(RouteAttribute::Destination(destination.into()));
        message.attributes.extend(self.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        message.attributes.push(RouteAttribute::Oif(index));
        message
    }

    /// By RTA_* of linux/rtnetlink.h.
    fn decode(answer: &Message, index: u32) -> Option<Self> {
        let head = answer.head::<HEAD>(RTM_NEWROUTE)?;
        let [family, length, _, _, table, _, _, kind, ..] = *head;
        let mut destination: IpAddr = match i32::from(family) {
            AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        };
        let (mut through, mut gateway, mut table) = (None, None, u32::from(table));
        for (kind, value) in answer.attributes(HEAD) {
            match kind {
                1 => destination = wire::ip(value)?,   // RTA_DST
                4 => through = wire::u32(value),       // RTA_OIF
                5 => gateway = Some(wire::ip(value)?), // RTA_GATEWAY
                15 => table = wire::u32(value)?,       // RTA_TABLE
                _ => {}
            }
        }
        let main = table == u32::from(RouteHeader::RT_TABLE_MAIN) && kind == RTN_UNICAST;
        let destination = IpNet::new(destination, length).ok()?;
        (main && through == Some(index)).then_some(Self { destination, gateway })
    }
}
