//! Changing interfaces that exist.

use super::Route;
use crate::{Error, Netns};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Prop};
use nix::errno::Errno;
use std::os::fd::AsRawFd;

impl Route {
    /// Gives the interface another name. It must be down on kernels before 6.2.
    pub fn rename(&mut self, index: u32, name: &str) -> Result<(), Error> {
        let mut message = about(index);
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.socket.request(RouteNetlinkMessage::SetLink(message), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.about_name(format!("rename to {name} the"), &self.name(index), name)),
        }
    }

    /// Sets the MTU. The kernel may use a smaller one: IPoIB keeps to its multicast group's.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Error> {
        self.set(format!("set MTU {mtu} of"), index, LinkAttribute::Mtu(mtu))
    }

    /// Brings the interface up.
    pub fn up(&mut self, index: u32) -> Result<(), Error> {
        self.flag("bring up", index, LinkFlags::Up)
    }

    /// Takes the interface down.
    pub fn down(&mut self, index: u32) -> Result<(), Error> {
        self.flag("take down", index, LinkFlags::empty())
    }

    /// Moves the interface to another namespace. There it may have another index: look it up again, by name.
    pub fn move_to(&mut self, index: u32, netns: &Netns) -> Result<(), Error> {
        let doing = format!("move to {} the", netns.id());
        self.set(doing, index, LinkAttribute::NetNsFd(netns.fd().as_raw_fd()))
    }

    /// Makes the interface a port of the bridge `master`, or of none.
    pub fn set_master(&mut self, index: u32, master: Option<u32>) -> Result<(), Error> {
        self.set("set the bridge of", index, LinkAttribute::Controller(master.unwrap_or(0)))
    }

    /// Removes the interface. One that is not there is removed.
    pub fn delete(&mut self, index: u32) -> Result<(), Error> {
        match self.socket.request(RouteNetlinkMessage::DelLink(about(index)), 0) {
            Ok(_) => Ok(()),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(()),
            Err(failure) => Err(self.refused("delete", index, failure)),
        }
    }

    /// Writes something on the interface, for people and programs; it stays there when it moves or is
    /// renamed.
    pub fn set_alias(&mut self, index: u32, alias: &str) -> Result<(), Error> {
        self.set("write an alias on", index, LinkAttribute::IfAlias(alias.to_owned()))
    }

    /// Gives the interface one more name. One that it has already is given.
    pub fn add_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        let message = RouteNetlinkMessage::NewLinkProp(property(index, altname));
        match self.socket.request(message, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link(altname)? {
                Some(link) if link.index == index => Ok(()),
                _ => Err(failure.about_name(format!("name {altname} the"), &self.name(index), altname)),
            },
        }
    }

    /// Takes one of its other names from the interface. One that it does not have is taken.
    pub fn remove_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        match self.socket.request(RouteNetlinkMessage::DelLinkProp(property(index, altname)), 0) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link_by_index(index)? {
                Some(link) if link.altnames.iter().any(|name| name == altname) => {
                    Err(self.refused(format!("take the name {altname} from"), index, failure))
                }
                _ => Ok(()),
            },
        }
    }

    fn set(&mut self, doing: impl Into<String>, index: u32, attribute: LinkAttribute) -> Result<(), Error> {
        let mut message = about(index);
        message.attributes.push(attribute);
        self.apply(doing, index, message)
    }

    fn flag(&mut self, doing: &str, index: u32, flags: LinkFlags) -> Result<(), Error> {
        let mut message = about(index);
        message.header.flags = flags;
        message.header.change_mask = LinkFlags::Up;
        self.apply(doing, index, message)
    }

    fn apply(&mut self, doing: impl Into<String>, index: u32, message: LinkMessage) -> Result<(), Error> {
        match self.socket.request(RouteNetlinkMessage::SetLink(message), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.refused(doing, index, failure)),
        }
    }
}

fn about(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn property(index: u32, altname: &str) -> LinkMessage {
    let mut message = about(index);
    message.attributes.push(LinkAttribute::PropList(vec![Prop::AltIfName(altname.to_owned())]));
    message
}
