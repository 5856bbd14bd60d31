//! Interfaces, and their lookup by name, altname or index.

use super::RouteSocket;
use crate::netlink::{MessageBuilder, NetlinkError, RawMessage, attr};
use crate::{Error, IpoibMode};
use ferroband_model::PKey;
use nix::errno::Errno;
use nix::libc::{
    IFF_LOWER_UP, IFF_UP, IFLA_ADDRESS, IFLA_ALT_IFNAME, IFLA_BROADCAST, IFLA_EXT_MASK, IFLA_IFALIAS,
    IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER,
    IFLA_MTU, IFLA_PARENT_DEV_NAME, IFLA_PROP_LIST, IFLA_STATS64, RTEXT_FILTER_SKIP_STATS, RTM_GETLINK,
    RTM_NEWLINK,
};

/// Length of struct ifinfomsg in bytes: family 1, padding 1, type 2, index 4, flags 4, change 4.
const HEAD: usize = 16;
/// IFF_UP and IFF_LOWER_UP with the type of the field in struct ifinfomsg.
const UP: u32 = IFF_UP.cast_unsigned();
const LOWER_UP: u32 = IFF_LOWER_UP.cast_unsigned();

/// Starts a request about the interface `index`. `up` sets the interface up or down; `None` leaves the flags
/// unchanged.
pub(super) fn link_request(index: u32, up: Option<bool>) -> MessageBuilder {
    let mut head = [0; HEAD];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(up) = up {
        let flags = if up { UP } else { 0 };
        head[8..12].copy_from_slice(&flags.to_ne_bytes());
        head[12..].copy_from_slice(&UP.to_ne_bytes());
    }
    MessageBuilder::new(&head)
}

/// The state of an interface at the time of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Index in its namespace. It may change when the interface is moved.
    pub index: u32,
    pub name: String,
    pub altnames: Vec<String>,
    /// Kind (`veth`, `bridge`, `ipoib`); hardware interfaces usually have none.
    pub kind: Option<String>,
    pub mtu: u32,
    /// Hardware address: 6 bytes for Ethernet, 20 for InfiniBand.
    pub address: Vec<u8>,
    /// Broadcast address, as long as the hardware address.
    pub broadcast: Vec<u8>,
    /// Whether the interface is administratively up (IFF_UP).
    pub up: bool,
    /// Whether the physical link is up (IFF_LOWER_UP).
    pub carrier: bool,
    /// ARPHRD_* of linux/if_arp.h: 1 Ethernet, 32 InfiniBand.
    pub link_type: u16,
    /// Index of the underlying interface: the parent of an IPoIB child, the peer of a veth. It may belong to
    /// another namespace.
    pub parent: Option<u32>,
    /// Index of the bridge of which the interface is a port.
    pub master: Option<u32>,
    /// IPoIB attributes. `None` for interfaces of other kinds, and for an IPoIB interface without a valid
    /// P_Key.
    pub ipoib: Option<IpoibInfo>,
    /// Name of the underlying device, usually a PCI address. The kernel reports it since 5.14.
    pub device: Option<String>,
    /// Free text (`ip link set … alias`).
    pub alias: Option<String>,
    /// Namespace ID of the interface [`Self::parent`], if it is in another namespace.
    pub parent_netns: Option<i32>,
    /// Counters (IFLA_STATS64); `None` if the message does not contain them.
    pub stats: Option<LinkStats>,
}

/// Packet and byte counters, from struct rtnl_link_stats64 of linux/if_link.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
}

/// IPoIB attributes of an interface (IFLA_INFO_DATA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpoibInfo {
    /// P_Key, including the membership bit.
    pub pkey: PKey,
    pub mode: IpoibMode,
}

impl Link {
    /// ARPHRD_INFINIBAND of linux/if_arp.h.
    pub const ARPHRD_INFINIBAND: u16 = nix::libc::ARPHRD_INFINIBAND;

    /// Text for messages: the kind or, if the interface has none, the link type.
    pub fn kind_or_type(&self) -> String {
        match (&self.kind, self.link_type) {
            (Some(kind), _) => kind.clone(),
            (None, 1) => "ethernet".to_owned(),
            (None, Self::ARPHRD_INFINIBAND) => "infiniband without a kind (a kernel before 5.10)".to_owned(),
            (None, 772) => "loopback".to_owned(),
            (None, other) => format!("ARPHRD {other}"),
        }
    }

    /// Decodes a message with the attributes IFLA_* of linux/if_link.h.
    pub(super) fn decode(message: &RawMessage) -> Option<Self> {
        let head = message.head::<HEAD>(RTM_NEWLINK)?;
        let flags = attr::u32(&head[8..])?;
        let mut link = Self {
            link_type: attr::u16(&head[2..])?,
            index: attr::u32(&head[4..])?,
            up: flags & UP != 0,
            carrier: flags & LOWER_UP != 0,
            ..Self::default()
        };
        for (kind, value) in message.attributes(HEAD) {
            match kind {
                IFLA_ADDRESS => link.address = value.to_vec(),
                IFLA_BROADCAST => link.broadcast = value.to_vec(),
                IFLA_IFNAME => link.name = attr::text(value),
                IFLA_MTU => link.mtu = attr::u32(value)?,
                IFLA_LINK => link.parent = attr::u32(value),
                IFLA_MASTER => link.master = attr::u32(value),
                IFLA_LINKINFO => link.decode_info(value),
                IFLA_IFALIAS => link.alias = Some(attr::text(value)),
                IFLA_STATS64 => link.stats = LinkStats::decode(value),
                IFLA_LINK_NETNSID => link.parent_netns = attr::i32(value),
                IFLA_PROP_LIST => link.altnames.extend(altnames(value)),
                IFLA_PARENT_DEV_NAME => link.device = Some(attr::text(value)),
                _ => {}
            }
        }
        Some(link)
    }

    fn decode_info(&mut self, info: &[u8]) {
        self.kind = attr::find(info, IFLA_INFO_KIND).map(attr::text);
        if self.kind.as_deref() == Some("ipoib") {
            self.ipoib = attr::find(info, IFLA_INFO_DATA).and_then(IpoibInfo::decode);
        }
    }
}

impl LinkStats {
    fn decode(statistics: &[u8]) -> Option<Self> {
        let number = |position: usize| statistics.get(8 * position..).and_then(attr::u64);
        Some(Self {
            rx_packets: number(0)?,
            tx_packets: number(1)?,
            rx_bytes: number(2)?,
            tx_bytes: number(3)?,
        })
    }
}

fn altnames(properties: &[u8]) -> impl Iterator<Item = String> {
    attr::iter(properties).filter(|(kind, _)| *kind == IFLA_ALT_IFNAME).map(|(_, value)| attr::text(value))
}

impl IpoibInfo {
    fn decode(data: &[u8]) -> Option<Self> {
        let (mut pkey, mut mode) = (None, None);
        for (kind, value) in attr::iter(data) {
            match kind {
                1 => pkey = attr::u16(value).and_then(PKey::new), // IFLA_IPOIB_PKEY
                2 => mode = attr::u16(value),                     // IFLA_IPOIB_MODE
                _ => {}
            }
        }
        let mode = match mode? {
            0 => IpoibMode::Datagram,
            1 => IpoibMode::Connected,
            _ => return None,
        };
        Some(Self { pkey: pkey?, mode })
    }
}

/// IFNAMSIZ without the terminating zero: maximum length of an interface name.
const MAX_NAME: usize = 15;
/// ALTIFNAMSIZ without the terminating zero: maximum length of an altname.
const MAX_ALTNAME: usize = 127;

impl RouteSocket {
    /// The interface with the name or altname `name`; `None` if it does not exist.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, Error> {
        // The kernel reads up to the first zero byte, so a longer text would match a shorter name.
        if name.is_empty() || name.len() > MAX_ALTNAME || name.contains('\0') {
            return Ok(None);
        }
        // IFLA_IFNAME matches altnames as well (`__dev_get_by_name` uses one hash table for both), but its
        // netlink policy rejects more than fifteen characters; IFLA_ALT_IFNAME accepts longer names.
        let kind = if name.len() <= MAX_NAME { IFLA_IFNAME } else { IFLA_ALT_IFNAME };
        self.request_link(link_request(0, None).with_text(kind, name))
            .map_err(|failure| failure.for_interface("look up", name))
    }

    /// The interface with this index; `None` if it does not exist.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, Error> {
        if index == 0 {
            return Ok(None);
        }
        self.request_link(link_request(index, None))
            .map_err(|failure| failure.for_interface("look up", format!("#{index}")))
    }

    /// All interfaces of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let replies = self
            .socket
            .dump(get_link_message(link_request(0, None)))
            .map_err(|failure| failure.for_interface("list", "(all)"))?;
        Ok(replies.iter().filter_map(Link::decode).collect())
    }

    fn request_link(&mut self, request: MessageBuilder) -> Result<Option<Link>, NetlinkError> {
        match self.socket.request(get_link_message(request), 0) {
            Ok(replies) => Ok(replies.iter().find_map(Link::decode)),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// Fails if the kernel would give the interface another name: it reads a name up to the first zero byte.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    match name.contains('\0') {
        false => Ok(()),
        true => Err(Error::InterfaceRequest {
            doing: "name".to_owned(),
            interface: name.escape_debug().to_string(),
            errno: Errno::EINVAL,
            message: Some("the name contains a zero byte".to_owned()),
        }),
    }
}

fn get_link_message(request: MessageBuilder) -> RawMessage {
    request.with(IFLA_EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes()).build(RTM_GETLINK)
}
