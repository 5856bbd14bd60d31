//! Creation of interfaces.

use super::RouteSocket;
use super::link::{check_name, link_request};
use crate::netlink::{MessageBuilder, RawMessage};
use crate::{Error, IpoibMode};
use ferroband_model::PKey;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use nix::libc::{
    IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, RTM_NEWLINK,
};
use std::net::Ipv4Addr;

/// An interface that is created with one atomic request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink<'a> {
    /// Name; the kernel replaces `%d` with the first free number.
    pub name: &'a str,
    pub kind: LinkKind<'a>,
    /// MTU; chosen by the kernel if absent.
    pub mtu: Option<u32>,
    /// Index of the bridge of which the interface becomes a port.
    pub master: Option<u32>,
    /// Whether the new interface is set administratively up.
    pub up: bool,
}

/// Kind of a new interface, with the parameters of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind<'a> {
    /// A child of an IPoIB interface.
    Ipoib {
        /// Interface index of the parent.
        parent: u32,
        /// P_Key of the child. The kernel adds the full membership bit.
        pkey: PKey,
        mode: IpoibMode,
    },
    /// A bridge without multicast snooping.
    Bridge,
    /// A veth pair. The other fields of [`NewLink`] apply to this end; the MTU applies to both ends.
    Veth {
        /// Name of the other end.
        peer: &'a str,
    },
    /// A VXLAN interface: Ethernet over UDP, with a multicast group of peers.
    Vxlan(Vxlan),
}

/// Parameters of a VXLAN interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// VXLAN network identifier, 24 bits.
    pub id: u32,
    /// Multicast group of all peers.
    pub group: Ipv4Addr,
    /// UDP port of the peers.
    pub port: u16,
    /// Index of the underlying interface.
    pub device: u32,
}

impl<'a> NewLink<'a> {
    /// Describes an interface that is down and is not a port of a bridge.
    pub fn new(name: &'a str, kind: LinkKind<'a>) -> Self {
        Self { name, kind, mtu: None, master: None, up: false }
    }

    /// The name to report if the kernel returns EEXIST. The kernel replaces `%d` with a free number, so if the
    /// name contains `%d`, only the name of the veth peer can be in use.
    fn name_that_may_conflict(&self) -> &str {
        match self.kind {
            LinkKind::Veth { peer } if self.name.contains("%d") => peer,
            _ => self.name,
        }
    }

    /// Builds the RTM_NEWLINK message. Attribute numbers that libc lacks are those of linux/if_link.h.
    pub(super) fn message(&self) -> RawMessage {
        let parent = match self.kind {
            LinkKind::Ipoib { parent, .. } => Some(parent),
            _ => None,
        };
        link_request(0, self.up.then_some(true))
            .with_text(IFLA_IFNAME, self.name)
            .with_optional(IFLA_MTU, self.mtu.map(u32::to_ne_bytes))
            .with_optional(IFLA_MASTER, self.master.map(u32::to_ne_bytes))
            .with_optional(IFLA_LINK, parent.map(u32::to_ne_bytes))
            .with_nest(IFLA_LINKINFO, &self.link_info())
            .build(RTM_NEWLINK)
    }

    fn link_info(&self) -> MessageBuilder {
        let data = MessageBuilder::default();
        let (kind, data) = match &self.kind {
            LinkKind::Ipoib { pkey, mode, .. } => {
                let mode: u16 = match mode {
                    IpoibMode::Datagram => 0,
                    IpoibMode::Connected => 1,
                };
                let data = data
                    .with(1, &pkey.base().to_ne_bytes()) // IFLA_IPOIB_PKEY
                    .with(2, &mode.to_ne_bytes()) // IFLA_IPOIB_MODE
                    // User-space multicast: programs can attach to groups that the kernel has not joined.
                    .with(3, &1u16.to_ne_bytes()); // IFLA_IPOIB_UMCAST
                ("ipoib", data)
            }
            LinkKind::Bridge => ("bridge", data.with(23, &[0])), // IFLA_BR_MCAST_SNOOPING
            LinkKind::Veth { peer } => {
                let other = link_request(0, None)
                    .with_text(IFLA_IFNAME, peer)
                    .with_optional(IFLA_MTU, self.mtu.map(u32::to_ne_bytes));
                ("veth", data.with_nest(1, &other)) // VETH_INFO_PEER
            }
            LinkKind::Vxlan(vxlan) => {
                let data = data
                    .with(1, &vxlan.id.to_ne_bytes()) // IFLA_VXLAN_ID
                    .with(2, &vxlan.group.octets()) // IFLA_VXLAN_GROUP
                    .with(15, &vxlan.port.to_be_bytes()) // IFLA_VXLAN_PORT
                    .with(3, &vxlan.device.to_ne_bytes()) // IFLA_VXLAN_LINK
                    .with(7, &[1]); // IFLA_VXLAN_LEARNING
                ("vxlan", data)
            }
        };
        MessageBuilder::default().with_text(IFLA_INFO_KIND, kind).with_nest(IFLA_INFO_DATA, &data)
    }
}

impl RouteSocket {
    /// Creates the interface. Returns [`Error::NameTaken`] if the name is in use.
    pub fn create_link(&mut self, link: &NewLink<'_>) -> Result<(), Error> {
        check_name(link.name)?;
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        match self.socket.request(link.message(), flags) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.for_name("create", link.name, link.name_that_may_conflict())),
        }
    }
}
