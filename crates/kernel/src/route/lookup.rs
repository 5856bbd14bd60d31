//! Finding interfaces.

use super::{Link, Route};
use crate::Error;
use crate::netlink::Failure;
use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use nix::errno::Errno;

/// IFNAMSIZ without the terminating zero: the longest name an interface has.
const NAME: usize = 15;
/// ALTIFNAMSIZ without the terminating zero: the longest alternative name.
const ALTNAME: usize = 127;
/// IFLA_ALT_IFNAME of linux/if_link.h.
const IFLA_ALT_IFNAME: u16 = 53;

impl Route {
    /// The interface called `name`, by its name or one of its altnames; nothing when there is none.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, Error> {
        // The kernel reads up to the first zero byte, so a longer text would find a shorter name.
        if name.is_empty() || name.len() > ALTNAME || name.contains('\0') {
            return Ok(None);
        }
        let mut question = LinkMessage::default();
        question.attributes.push(named(name));
        self.question(question).map_err(|failure| failure.about("look up", name))
    }

    /// The interface of this index; nothing when there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, Error> {
        if index == 0 {
            return Ok(None);
        }
        let mut question = LinkMessage::default();
        question.header.index = index;
        self.question(question).map_err(|failure| failure.about("look up", format!("#{index}")))
    }

    /// All interfaces of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let answers = self
            .socket
            .dump(RouteNetlinkMessage::GetLink(without_statistics(LinkMessage::default())))
            .map_err(|failure| failure.about("list", "any"))?;
        Ok(answers.iter().filter_map(Link::decode).collect())
    }

    fn question(&mut self, question: LinkMessage) -> Result<Option<Link>, Failure> {
        match self.socket.request(RouteNetlinkMessage::GetLink(without_statistics(question)), 0) {
            Ok(answers) => Ok(answers.iter().find_map(Link::decode)),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// The attribute to look a name up by. IFLA_IFNAME finds altnames as well (`__dev_get_by_name` searches one
/// table of both) but its policy refuses more than fifteen characters; IFLA_ALT_IFNAME takes the long ones.
fn named(name: &str) -> LinkAttribute {
    if name.len() <= NAME {
        return LinkAttribute::IfName(name.to_owned());
    }
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    LinkAttribute::Other(DefaultNla::new(IFLA_ALT_IFNAME, bytes))
}

fn without_statistics(mut question: LinkMessage) -> LinkMessage {
    question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    question
}
