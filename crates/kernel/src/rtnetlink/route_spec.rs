//! Adding, removing and listing routes.

use super::RouteSocket;
use super::route_entry::RouteEntry;
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};
use nix::errno::Errno;
use nix::libc::{
    AF_INET, AF_INET6, RT_SCOPE_LINK, RT_SCOPE_NOWHERE, RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RTA_DST,
    RTA_GATEWAY, RTA_METRICS, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY, RTA_TABLE, RTM_DELROUTE, RTM_GETROUTE,
    RTM_NEWROUTE, RTPROT_STATIC,
};
use std::fmt;
use std::net::IpAddr;

/// A unicast route with the fields of a route in a CNI result, and a preferred source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// Destination prefix. Host bits are ignored.
    pub destination: IpNet,
    /// Next hop; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Metric: lower values take precedence. Chosen by the kernel if absent (IPv4 0, IPv6 1024).
    pub priority: Option<u32>,
    /// Routing table; main if absent.
    pub table: Option<u32>,
    /// RT_SCOPE_* of linux/rtnetlink.h. If absent, `universe` with a gateway and `link` without one.
    pub scope: Option<u8>,
    /// Path MTU of the route (RTAX_MTU).
    pub mtu: Option<u32>,
    /// MSS that TCP advertises.
    pub advmss: Option<u32>,
    /// Preferred source address.
    pub source: Option<IpAddr>,
}

impl RouteSpec {
    /// RT_TABLE_MAIN of linux/rtnetlink.h.
    pub const MAIN_TABLE: u32 = RT_TABLE_MAIN as u32;

    /// A route to `destination` in the main table.
    pub fn new(destination: IpNet, gateway: Option<IpAddr>) -> Self {
        Self {
            destination,
            gateway,
            priority: None,
            table: None,
            scope: None,
            mtu: None,
            advmss: None,
            source: None,
        }
    }

    /// Builds a message of type `kind` for this route through the interface `index`: struct rtmsg with RTA_* and
    /// RTAX_* attributes of linux/rtnetlink.h.
    pub(super) fn message(&self, kind: u16, index: u32) -> RawMessage {
        let destination = self.destination.trunc();
        let table = self.table.unwrap_or(Self::MAIN_TABLE);
        let scope = match (self.scope, kind, self.gateway) {
            (Some(scope), ..) => scope,
            // In a deletion RT_SCOPE_NOWHERE matches any scope.
            (None, RTM_DELROUTE, _) => RT_SCOPE_NOWHERE,
            (None, _, Some(_)) => RT_SCOPE_UNIVERSE,
            (None, _, None) => RT_SCOPE_LINK,
        };
        // The table field of struct rtmsg has one byte. A table above 255 is in RTA_TABLE only.
        let short = u8::try_from(table).unwrap_or(0);
        let (protocol, unicast) = if kind == RTM_DELROUTE { (0, 0) } else { (RTPROT_STATIC, 1) };
        let head = [
            address_family(&destination),
            destination.prefix_len(),
            0,
            0,
            short,
            protocol,
            scope,
            unicast,
            0,
            0,
            0,
            0,
        ];
        let metrics = MessageBuilder::default()
            .with_optional(2, self.mtu.map(u32::to_ne_bytes)) // RTAX_MTU
            .with_optional(8, self.advmss.map(u32::to_ne_bytes)); // RTAX_ADVMSS
        let body = MessageBuilder::new(&head)
            .with(RTA_DST, &address_bytes(destination.addr()))
            .with_optional(RTA_GATEWAY, self.gateway.map(address_bytes))
            .with_optional(RTA_PREFSRC, self.source.map(address_bytes))
            .with(RTA_OIF, &index.to_ne_bytes())
            .with_optional(RTA_PRIORITY, self.priority.map(u32::to_ne_bytes))
            .with(RTA_TABLE, &table.to_ne_bytes());
        let body = if metrics.is_empty() { body } else { body.with_flagged_nest(RTA_METRICS, &metrics) };
        body.build(kind)
    }
}

impl RouteSocket {
    /// Adds a route to the main table with [`RouteSocket::append_route`], without optional fields.
    pub fn add_route(
        &mut self,
        index: u32,
        destination: IpNet,
        gateway: Option<IpAddr>,
    ) -> Result<(), Error> {
        self.append_route(index, &RouteSpec::new(destination, gateway))
    }

    /// Appends a route through the interface. A second default route neither fails nor replaces the first one.
    /// Succeeds if the same route exists.
    pub fn append_route(&mut self, index: u32, route: &RouteSpec) -> Result<(), Error> {
        let message = route.message(RTM_NEWROUTE, index);
        let flags = NLM_F_CREATE | NLM_F_APPEND;
        // Without NLM_F_EXCL the kernel returns EEXIST only for an identical route (fib_table_insert of
        // net/ipv4/fib_trie.c, fib6_add_rt2node of net/ipv6/ip6_fib.c).
        self.request_on(format!("add a {route} through"), index, message, flags, &[Errno::EEXIST])
    }

    /// Removes the first route through the interface that matches all fields set in `route`. Succeeds if there is
    /// none.
    pub fn remove_route(&mut self, index: u32, route: &RouteSpec) -> Result<(), Error> {
        let message = route.message(RTM_DELROUTE, index);
        // ESRCH: the route does not exist. ENODEV: the interface does not exist, so it has no routes.
        let missing = [Errno::ESRCH, Errno::ENODEV];
        self.request_on(format!("remove the {route} through"), index, message, 0, &missing)
    }

    /// All routes of all tables, including those that the kernel added. A multipath route yields one entry per
    /// next hop.
    pub fn all_routes(&mut self) -> Result<Vec<RouteEntry>, Error> {
        match self.socket.dump(MessageBuilder::new(&[0; 12]).build(RTM_GETROUTE)) {
            Ok(replies) => Ok(replies.iter().flat_map(RouteEntry::decode).collect()),
            Err(failure) => Err(failure.for_interface("list the routes through", "(all)")),
        }
    }
}

impl fmt::Display for RouteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {}", self.destination.trunc())?;
        self.gateway.map_or(Ok(()), |gateway| write!(f, " via {gateway}"))?;
        match self.table {
            Some(table) if table != Self::MAIN_TABLE => write!(f, " in table {table}"),
            _ => Ok(()),
        }
    }
}

/// AF_INET or AF_INET6, for the first byte of rtnetlink's fixed headers.
pub(super) fn address_family(net: &IpNet) -> u8 {
    let family = match net {
        IpNet::V4(_) => AF_INET,
        IpNet::V6(_) => AF_INET6,
    };
    u8::try_from(family).unwrap_or_default()
}

pub(super) fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
