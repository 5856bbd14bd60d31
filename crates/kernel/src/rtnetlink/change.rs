//! Changing interfaces that exist.

use super::RouteSocket;
use super::link::link_request;
use crate::netlink::MessageBuilder;
use crate::{Error, Netns};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use nix::errno::Errno;
use std::os::fd::AsRawFd;

/// RTM_* of linux/rtnetlink.h.
const RTM_DELLINK: u16 = 17;
const RTM_SETLINK: u16 = 19;
const RTM_NEWLINKPROP: u16 = 108;
const RTM_DELLINKPROP: u16 = 109;
/// IFLA_* of linux/if_link.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;

impl RouteSocket {
    /// Gives the interface another name. It must be down on kernels before 6.2.
    pub fn rename_link(&mut self, index: u32, name: &str) -> Result<(), Error> {
        let message = link_request(index, None).with_text(IFLA_IFNAME, name);
        match self.socket.request(message.build(RTM_SETLINK), 0) {
            Ok(_) => Ok(()),
            Err(failure) => {
                Err(failure.for_name(format!("rename to {name} the"), &self.name_of(index), name))
            }
        }
    }

    /// Sets the MTU. The kernel may use a smaller one: IPoIB keeps to its multicast group's.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Error> {
        self.set_attribute(format!("set MTU {mtu} of"), index, IFLA_MTU, &mtu.to_ne_bytes())
    }

    /// Sets how many packets may wait for the interface.
    pub fn set_tx_queue_len(&mut self, index: u32, packets: u32) -> Result<(), Error> {
        self.set_attribute(
            format!("set the queue of {packets} of"),
            index,
            IFLA_TXQLEN,
            &packets.to_ne_bytes(),
        )
    }

    /// Brings the interface up.
    pub fn set_up(&mut self, index: u32) -> Result<(), Error> {
        self.request_set_link("bring up", index, link_request(index, Some(true)))
    }

    /// Takes the interface down.
    pub fn set_down(&mut self, index: u32) -> Result<(), Error> {
        self.request_set_link("take down", index, link_request(index, Some(false)))
    }

    /// Moves the interface to another namespace. There it may have another index: look it up again, by name.
    pub fn move_link(&mut self, index: u32, netns: &Netns) -> Result<(), Error> {
        let doing = format!("move to {} the", netns.id());
        self.set_attribute(doing, index, IFLA_NET_NS_FD, &netns.fd().as_raw_fd().to_ne_bytes())
    }

    /// Moves the interface to another namespace and gives it another name there, in one request: each by itself waits for all
    /// processors. The kernel takes it down for that. When somebody there has the name, it may have been moved all the same,
    /// under the name that it had (`do_setlink` in net/core/rtnetlink.c moves first).
    pub fn move_and_rename(&mut self, index: u32, netns: &Netns, name: &str) -> Result<(), Error> {
        let fd = netns.fd().as_raw_fd().to_ne_bytes();
        let message = link_request(index, None).with(IFLA_NET_NS_FD, &fd).with_text(IFLA_IFNAME, name);
        match self.socket.request(message.build(RTM_SETLINK), 0) {
            Ok(_) => Ok(()),
            // Newer kernels add words to it.
            Err(failure) if failure.errno() == Some(Errno::EEXIST) => {
                Err(Error::NameTaken { interface: name.to_owned() })
            }
            Err(failure) => {
                Err(self.interface_error(format!("move to {} as {name} the", netns.id()), index, failure))
            }
        }
    }

    /// Makes the interface a port of the bridge `master`, or of none.
    pub fn set_master(&mut self, index: u32, master: Option<u32>) -> Result<(), Error> {
        self.set_attribute("set the bridge of", index, IFLA_MASTER, &master.unwrap_or(0).to_ne_bytes())
    }

    /// Removes the interface. One that is not there is removed.
    pub fn delete_link(&mut self, index: u32) -> Result<(), Error> {
        match self.socket.request(link_request(index, None).build(RTM_DELLINK), 0) {
            Ok(_) => Ok(()),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(()),
            Err(failure) => Err(self.interface_error("delete", index, failure)),
        }
    }

    /// Writes something on the interface, for people and programs; it stays there when it moves or is
    /// renamed.
    pub fn set_alias(&mut self, index: u32, alias: &str) -> Result<(), Error> {
        self.set_attribute("write an alias on", index, IFLA_IFALIAS, alias.as_bytes())
    }

    /// Gives the interface one more name. One that it has already is given.
    pub fn add_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        let message = altname_request(index, altname).build(RTM_NEWLINKPROP);
        match self.socket.request(message, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link(altname)? {
                Some(link) if link.index == index => Ok(()),
                _ => Err(failure.for_name(format!("name {altname} the"), &self.name_of(index), altname)),
            },
        }
    }

    /// Takes one of its other names from the interface. One that it does not have is taken.
    pub fn remove_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        match self.socket.request(altname_request(index, altname).build(RTM_DELLINKPROP), 0) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link_by_index(index)? {
                Some(link) if link.altnames.iter().any(|name| name == altname) => {
                    Err(self.interface_error(format!("take the name {altname} from"), index, failure))
                }
                _ => Ok(()),
            },
        }
    }

    fn set_attribute(
        &mut self,
        doing: impl Into<String>,
        index: u32,
        kind: u16,
        value: &[u8],
    ) -> Result<(), Error> {
        self.request_set_link(doing, index, link_request(index, None).with(kind, value))
    }

    fn request_set_link(
        &mut self,
        doing: impl Into<String>,
        index: u32,
        body: MessageBuilder,
    ) -> Result<(), Error> {
        match self.socket.request(body.build(RTM_SETLINK), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.interface_error(doing, index, failure)),
        }
    }
}

fn altname_request(index: u32, altname: &str) -> MessageBuilder {
    let names = MessageBuilder::default().with_text(IFLA_ALT_IFNAME, altname);
    link_request(index, None).with_flagged_nest(IFLA_PROP_LIST, &names)
}
