//! Lookup of interfaces by name, altname or index.

use super::link::link_request;
use super::{Link, RouteSocket};
use crate::Error;
use crate::netlink::{MessageBuilder, NetlinkError, RawMessage};
use nix::errno::Errno;
use nix::libc::{IFLA_ALT_IFNAME, IFLA_EXT_MASK, IFLA_IFNAME, RTEXT_FILTER_SKIP_STATS, RTM_GETLINK};

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

fn get_link_message(request: MessageBuilder) -> RawMessage {
    request.with(IFLA_EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes()).build(RTM_GETLINK)
}
