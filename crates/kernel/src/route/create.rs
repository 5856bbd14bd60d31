//! Making interfaces.

use super::Route;
use crate::{Error, IpoibMode};
use ferroband_model::PKey;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoIpoib, InfoKind, InfoVeth, InfoVxlan, IpoibMode as WireMode, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use std::net::Ipv4Addr;

/// An interface to make, in one request: either all of this comes to be or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink<'a> {
    /// Its name; `%d` in it is replaced by the kernel with the first free number.
    pub name: &'a str,
    /// What it is.
    pub kind: Kind<'a>,
    /// Its MTU; the kernel's choice when absent.
    pub mtu: Option<u32>,
    /// The bridge to be a port of.
    pub master: Option<u32>,
    /// Whether to bring it up at once.
    pub up: bool,
}

/// The kinds of interfaces that we make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
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
    pub fn new(name: &'a str, kind: Kind<'a>) -> Self {
        Self { name, kind, mtu: None, master: None, up: false }
    }

    /// The name that can be taken: a pattern finds a free one, but the other end of a wire has a name too.
    fn fixed_name(&self) -> &str {
        match self.kind {
            Kind::Veth { peer } if self.name.contains("%d") => peer,
            _ => self.name,
        }
    }

    pub(super) fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        if self.up {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        }
        let attributes = &mut message.attributes;
        attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        attributes.extend(self.mtu.map(LinkAttribute::Mtu));
        attributes.extend(self.master.map(LinkAttribute::Controller));
        if let Kind::Ipoib { parent, .. } = self.kind {
            attributes.push(LinkAttribute::Link(parent));
        }
        attributes.push(LinkAttribute::LinkInfo(self.info()));
        message
    }

    fn info(&self) -> Vec<LinkInfo> {
        let (kind, data) = match &self.kind {
            Kind::Ipoib { pkey, mode, .. } => (
                InfoKind::Ipoib,
                InfoData::Ipoib(vec![
                    InfoIpoib::Pkey(pkey.base()),
                    InfoIpoib::Mode(match mode {
                        IpoibMode::Datagram => WireMode::Datagram,
                        IpoibMode::Connected => WireMode::Connected,
                    }),
                    // User-space multicast: join groups although the kernel's own list does not have them.
                    InfoIpoib::UmCast(1),
                ]),
            ),
            Kind::Bridge => (InfoKind::Bridge, InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
            Kind::Veth { peer } => {
                let mut other = LinkMessage::default();
                other.attributes.push(LinkAttribute::IfName((*peer).to_owned()));
                other.attributes.extend(self.mtu.map(LinkAttribute::Mtu));
                (InfoKind::Veth, InfoData::Veth(InfoVeth::Peer(other)))
            }
            Kind::Vxlan(vxlan) => (
                InfoKind::Vxlan,
                InfoData::Vxlan(vec![
                    InfoVxlan::Id(vxlan.id),
                    InfoVxlan::Group(vxlan.group),
                    InfoVxlan::Port(vxlan.port),
                    InfoVxlan::Link(vxlan.device),
                    InfoVxlan::Learning(true),
                ]),
            ),
        };
        vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]
    }
}

impl Route {
    /// Makes the interface; a taken name is [`Error::NameTaken`].
    pub fn create(&mut self, link: &NewLink<'_>) -> Result<(), Error> {
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        match self.socket.request(RouteNetlinkMessage::NewLink(link.message()), flags) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.about_name("create", link.name, link.fixed_name())),
        }
    }
}
