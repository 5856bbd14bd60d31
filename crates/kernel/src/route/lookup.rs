//! Finding interfaces.

use super::link::about;
use super::{Link, Route};
use crate::Error;
use crate::netlink::{Body, Failure, Message};
use nix::errno::Errno;

/// RTM_GETLINK of linux/rtnetlink.h.
const RTM_GETLINK: u16 = 18;
/// IFLA_* of linux/if_link.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_EXT_MASK: u16 = 29;
/// RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h.
const WITHOUT_STATISTICS: u32 = 8;

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
        // IFLA_IFNAME finds altnames as well (`__dev_get_by_name` searches one table of both) but its policy
        // refuses more than fifteen characters; IFLA_ALT_IFNAME takes the long ones.
        let kind = if name.len() <= NAME { IFLA_IFNAME } else { IFLA_ALT_IFNAME };
        self.question(about(0, None).with_text(kind, name)).map_err(|failure| failure.about("look up", name))
    }

    /// The interface of this index; nothing when there is none.
    pub fn link_by_index(&mut self, index: u32) -> Result<Option<Link>, Error> {
        if index == 0 {
            return Ok(None);
        }
        self.question(about(index, None)).map_err(|failure| failure.about("look up", format!("#{index}")))
    }

    /// All interfaces of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let answers = self
            .socket
            .dump(without_statistics(about(0, None)))
            .map_err(|failure| failure.about("list", "any"))?;
        Ok(answers.iter().filter_map(Link::decode).collect())
    }

    fn question(&mut self, question: Body) -> Result<Option<Link>, Failure> {
        match self.socket.request(without_statistics(question), 0) {
            Ok(answers) => Ok(answers.iter().find_map(Link::decode)),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn without_statistics(question: Body) -> Message {
    question.with(IFLA_EXT_MASK, &WITHOUT_STATISTICS.to_ne_bytes()).message(RTM_GETLINK)
}
