//! Making interfaces.

use super::RouteSocket;
use super::link::link_request;
use crate::netlink::{MessageBuilder, RawMessage};
use crate::{Error, IpoibMode};
use ferroband_model::PKey;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use std::net::Ipv4Addr;

/// RTM_NEWLINK of linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;

/// An interface to make, in one request: either all of this comes to be or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink<'a> {
    /// Its name; `%d` in it is replaced by the kernel with the first free number.
    pub name: &'a str,
    /// What it is.
    pub kind: LinkKind<'a>,
    /// Its MTU; the kernel's choice when absent.
    pub mtu: Option<u32>,
    /// The bridge to be a port of.
    pub master: Option<u32>,
    /// Whether to bring it up at once.
    pub up: bool,
}

/// The kinds of interfaces that we make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind<'a> {
    /// A child of an IPoIB interface.
    Ipoib {
        /// The parent's index.
        parent: u32,
        /// The child's P_Key; the kernel adds the full-member bit itself.
        pkey: PKey,
        /// The child's mode.
        mode: IpoibMode,
    },
    /// A bridge that forwards at once and does not snoop on multicast.
    Bridge,
    /// Two ends of a wire. The other attributes of [`NewLink`] are this end's; the MTU is both ends'.
    Veth {
        /// The other end's name.
        peer: &'a str,
    },
    /// An Ethernet over UDP to everybody who listens to a multicast group.
    Vxlan(Vxlan),
}

/// Where a VXLAN goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The network's identifier, 24 bits.
    pub id: u32,
    /// The multicast group that stands for all peers.
    pub group: Ipv4Addr,
    /// The UDP port of the peers.
    pub port: u16,
    /// The index of the interface that carries it.
    pub device: u32,
}

impl<'a> NewLink<'a> {
    /// An interface that is down and for itself.
    pub fn new(name: &'a str, kind: LinkKind<'a>) -> Self {
        Self { name, kind, mtu: None, master: None, up: false }
    }

    /// The name that can be taken: a pattern finds a free one, but the other end of a wire has a name too.
    fn name_that_may_conflict(&self) -> &str {
        match self.kind {
            LinkKind::Veth { peer } if self.name.contains("%d") => peer,
            _ => self.name,
        }
    }

    /// By IFLA_* of linux/if_link.h.
    pub(super) fn message(&self) -> RawMessage {
        let parent = match self.kind {
            LinkKind::Ipoib { parent, .. } => Some(parent),
            _ => None,
        };
        link_request(0, self.up.then_some(true))
            .with_text(3, self.name) // IFLA_IFNAME
            .with_optional(4, self.mtu.map(u32::to_ne_bytes)) // IFLA_MTU
            .with_optional(10, self.master.map(u32::to_ne_bytes)) // IFLA_MASTER
            .with_optional(5, parent.map(u32::to_ne_bytes)) // IFLA_LINK
            .with_nest(18, &self.link_info()) // IFLA_LINKINFO
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
                    // User-space multicast: join groups although the kernel's own list does not have them.
                    .with(3, &1u16.to_ne_bytes()); // IFLA_IPOIB_UMCAST
                ("ipoib", data)
            }
            LinkKind::Bridge => ("bridge", data.with(23, &[0])), // IFLA_BR_MCAST_SNOOPING
            LinkKind::Veth { peer } => {
                let other =
                    link_request(0, None).with_text(3, peer).with_optional(4, self.mtu.map(u32::to_ne_bytes));
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
        MessageBuilder::default().with_text(1, kind).with_nest(2, &data) // IFLA_INFO_KIND, IFLA_INFO_DATA
    }
}

impl RouteSocket {
    /// Makes the interface; a taken name is [`Error::NameTaken`].
    pub fn create_link(&mut self, link: &NewLink<'_>) -> Result<(), Error> {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        match self.socket.request(link.message(), flags) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.for_name("create", link.name, link.name_that_may_conflict())),
        }
    }
}
