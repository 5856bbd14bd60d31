//! Removing a route.

use ferroband_kernel::Netns;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use std::io;

/// Remove one default route of the main table through the interface, whoever set it. None there is success.
pub(super) fn default_route(netns: &Netns, index: u32, destination: IpNet) -> io::Result<()> {
    netns.run(|| request(index, destination)).map_err(io::Error::other)?
}

fn request(index: u32, destination: IpNet) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: match destination {
            IpNet::V4(_) => AddressFamily::Inet,
            IpNet::V6(_) => AddressFamily::Inet6,
        },
        table: RouteHeader::RT_TABLE_MAIN,
        // Any scope, and as they stay zero any protocol and type (`fib_table_delete` in net/ipv4/fib_trie.c).
        scope: RouteScope::NoWhere,
        ..RouteHeader::default()
    };
    message.attributes.push(RouteAttribute::Oif(index));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::DelRoute(message));
    let mut packet = NetlinkMessage::new(header, payload);
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);

    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::Error(error) => match error.code {
            None => Ok(()),
            Some(code) => match Errno::from_raw(code.get().saturating_neg()) {
                Errno::ESRCH | Errno::ENODEV => Ok(()),
                errno => Err(errno.into()),
            },
        },
        other => Err(io::Error::other(format!("the kernel answered {other:?}"))),
    }
}
