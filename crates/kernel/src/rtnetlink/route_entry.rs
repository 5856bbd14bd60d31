//! Routes as listed by the kernel.

use super::RouteSpec;
use crate::netlink::{RawMessage, attr};
use ipnet::IpNet;
use nix::libc::{
    AF_INET, AF_INET6, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY,
    RTA_TABLE, RTM_F_CLONED, RTM_NEWROUTE, RTN_UNICAST,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of struct rtmsg: eight fields of 1 byte (family, two prefix lengths, tos, table, protocol, scope, type)
/// and the flags with 4 bytes.
const HEAD: usize = 12;
/// Length of struct rtnexthop in bytes: length 2, flags 1, hops 1, interface 4.
const RTNEXTHOP_LEN: usize = 8;

/// A route of the kernel with one next hop. A multipath route becomes several entries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteEntry {
    /// The route; table, scope and priority are always set.
    pub route: RouteSpec,
    /// Index of the outgoing interface; blackhole and similar routes have none.
    pub interface: Option<u32>,
    /// RTN_* of linux/rtnetlink.h: 1 unicast, 2 local, 3 broadcast.
    pub kind: u8,
    /// RTPROT_* of linux/rtnetlink.h: 2 kernel, 4 static.
    pub protocol: u8,
}

impl RouteEntry {
    /// Whether this is a unicast route (RTN_UNICAST) of the main table.
    pub fn is_main_unicast(&self) -> bool {
        self.kind == RTN_UNICAST && self.route.table == Some(RouteSpec::MAIN_TABLE)
    }

    pub fn is_default(&self) -> bool {
        self.route.destination.prefix_len() == 0
    }

    /// Decodes a route into one entry per next hop. The list is empty if the message is not a configured route.
    pub(super) fn decode(reply: &RawMessage) -> Vec<Self> {
        Self::decode_next_hops(reply).unwrap_or_default()
    }

    fn decode_next_hops(reply: &RawMessage) -> Option<Vec<Self>> {
        let head = reply.head::<HEAD>(RTM_NEWROUTE)?;
        let [family, length, _, _, table, protocol, scope, kind, ..] = *head;
        // A cached exception is not a configured route.
        if attr::u32(&head[8..])? & RTM_F_CLONED != 0 {
            return None;
        }
        let mut destination: IpAddr = match i32::from(family) {
            AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        };
        let (mut interface, mut gateway, mut hops, mut table) = (None, None, None, u32::from(table));
        let (mut priority, mut source, mut mtu, mut advmss) = (0, None, None, None);
        for (kind, value) in reply.attributes(HEAD) {
            match kind {
                RTA_DST => destination = attr::ip(value)?,
                RTA_OIF => interface = attr::u32(value),
                RTA_GATEWAY => gateway = attr::ip(value),
                RTA_PRIORITY => priority = attr::u32(value)?,
                RTA_PREFSRC => source = attr::ip(value),
                RTA_METRICS => {
                    for (metric, value) in attr::iter(value) {
                        match metric {
                            2 => mtu = attr::u32(value),    // RTAX_MTU
                            8 => advmss = attr::u32(value), // RTAX_ADVMSS
                            _ => {}
                        }
                    }
                }
                RTA_MULTIPATH => hops = Some(value),
                RTA_TABLE => table = attr::u32(value)?,
                _ => {}
            }
        }
        let route = RouteSpec {
            destination: IpNet::new(destination, length).ok()?,
            gateway,
            priority: Some(priority),
            table: Some(table),
            scope: Some(scope),
            mtu,
            advmss,
            source,
        };
        let single = Self { route, interface, kind, protocol };
        Some(match hops {
            Some(hops) => next_hops(hops)
                .map(|(interface, gateway)| Self {
                    route: RouteSpec { gateway, ..route },
                    interface: Some(interface),
                    ..single
                })
                .collect(),
            None => vec![single],
        })
    }
}

/// Interface and gateway of each next hop in RTA_MULTIPATH.
fn next_hops(bytes: &[u8]) -> impl Iterator<Item = (u32, Option<IpAddr>)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(attr::u16(rest)?);
        let hop = rest.get(..length).filter(|_| length >= RTNEXTHOP_LEN)?;
        let interface = attr::u32(&hop[4..])?;
        let gateway = attr::find(&hop[RTNEXTHOP_LEN..], RTA_GATEWAY);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((interface, gateway.and_then(attr::ip)))
    })
}
