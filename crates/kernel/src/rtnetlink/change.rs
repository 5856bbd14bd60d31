//! Changes to existing interfaces.

use super::RouteSocket;
use super::link::{check_name, link_request};
use crate::netlink::MessageBuilder;
use crate::{Error, Netns};
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use nix::errno::Errno;
use nix::libc::{
    IFLA_ADDRESS, IFLA_ALT_IFNAME, IFLA_IFALIAS, IFLA_IFNAME, IFLA_MASTER, IFLA_MTU, IFLA_NET_NS_FD,
    IFLA_PROP_LIST, IFLA_TXQLEN, RTM_DELLINK, RTM_SETLINK,
};
use std::os::fd::AsRawFd;

/// RTM_* of linux/rtnetlink.h that libc lacks.
const RTM_NEWLINKPROP: u16 = 108;
const RTM_DELLINKPROP: u16 = 109;

impl RouteSocket {
    /// Renames the interface. It must be down on kernels before 6.2.
    pub fn rename_link(&mut self, index: u32, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let message = link_request(index, None).with_text(IFLA_IFNAME, name);
        match self.socket.request(message.build(RTM_SETLINK), 0) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.for_name(format!("set name {name} of"), &self.name_of(index), name)),
        }
    }

    /// Sets the MTU. The kernel may apply a smaller value, because the multicast group limits the MTU of IPoIB.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Error> {
        self.set_attribute(format!("set MTU {mtu} of"), index, IFLA_MTU, &mtu.to_ne_bytes())
    }

    /// Sets the hardware address. It must have the length of the interface's type.
    pub fn set_hardware_address(&mut self, index: u32, address: &[u8]) -> Result<(), Error> {
        self.set_attribute("set the hardware address of", index, IFLA_ADDRESS, address)
    }

    /// Sets the length of the transmit queue in packets.
    pub fn set_tx_queue_len(&mut self, index: u32, packets: u32) -> Result<(), Error> {
        self.set_attribute(
            format!("set transmit queue length {packets} of"),
            index,
            IFLA_TXQLEN,
            &packets.to_ne_bytes(),
        )
    }

    /// Sets the interface administratively up.
    pub fn set_up(&mut self, index: u32) -> Result<(), Error> {
        self.request_set_link("bring up", index, link_request(index, Some(true)))
    }

    /// Sets the interface administratively down.
    pub fn set_down(&mut self, index: u32) -> Result<(), Error> {
        self.request_set_link("bring down", index, link_request(index, Some(false)))
    }

    /// Moves the interface to another namespace. The index may change, so look the interface up again by name.
    pub fn move_link(&mut self, index: u32, netns: &Netns) -> Result<(), Error> {
        let doing = format!("set network namespace {} of", netns.id());
        self.set_attribute(doing, index, IFLA_NET_NS_FD, &netns.fd().as_raw_fd().to_ne_bytes())
    }

    /// Moves the interface to another namespace and renames it. This is one request because every request waits
    /// for an RCU grace period. The kernel sets the interface down. If the name is taken, the interface may
    /// nevertheless have been moved, with its old name (`do_setlink` in net/core/rtnetlink.c moves first).
    pub fn move_and_rename(&mut self, index: u32, netns: &Netns, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let fd = netns.fd().as_raw_fd().to_ne_bytes();
        let message = link_request(index, None).with(IFLA_NET_NS_FD, &fd).with_text(IFLA_IFNAME, name);
        match self.socket.request(message.build(RTM_SETLINK), 0) {
            Ok(_) => Ok(()),
            // `for_name` would not recognize this EEXIST, because newer kernels add an explanation to it.
            Err(failure) if failure.errno() == Some(Errno::EEXIST) => {
                Err(Error::NameTaken { interface: name.to_owned() })
            }
            Err(failure) => Err(self.interface_error(
                format!("set network namespace {} and name {name} of", netns.id()),
                index,
                failure,
            )),
        }
    }

    /// Makes the interface a port of the bridge with the index `master`; `None` removes it from its bridge.
    pub fn set_master(&mut self, index: u32, master: Option<u32>) -> Result<(), Error> {
        self.set_attribute("set the bridge of", index, IFLA_MASTER, &master.unwrap_or(0).to_ne_bytes())
    }

    /// Deletes the interface. Succeeds if it does not exist.
    pub fn delete_link(&mut self, index: u32) -> Result<(), Error> {
        let message = link_request(index, None).build(RTM_DELLINK);
        self.request_on("delete", index, message, 0, &[Errno::ENODEV])
    }

    /// Sets the alias, a free text that the interface keeps when it is moved or renamed.
    pub fn set_alias(&mut self, index: u32, alias: &str) -> Result<(), Error> {
        self.set_attribute("set the alias of", index, IFLA_IFALIAS, alias.as_bytes())
    }

    /// Adds an altname. Succeeds if the interface already has it.
    pub fn add_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        check_name(altname)?;
        let message = altname_request(index, altname).build(RTM_NEWLINKPROP);
        match self.socket.request(message, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link(altname)? {
                Some(link) if link.index == index => Ok(()),
                _ => {
                    Err(failure.for_name(format!("add altname {altname} to"), &self.name_of(index), altname))
                }
            },
        }
    }

    /// Removes an altname. Succeeds if the interface does not have it.
    pub fn remove_altname(&mut self, index: u32, altname: &str) -> Result<(), Error> {
        match self.socket.request(altname_request(index, altname).build(RTM_DELLINKPROP), 0) {
            Ok(_) => Ok(()),
            Err(failure) => match self.link_by_index(index)? {
                Some(link) if link.altnames.iter().any(|name| name == altname) => {
                    Err(self.interface_error(format!("remove altname {altname} from"), index, failure))
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
        self.request_on(doing, index, body.build(RTM_SETLINK), 0, &[])
    }
}

fn altname_request(index: u32, altname: &str) -> MessageBuilder {
    let names = MessageBuilder::default().with_text(IFLA_ALT_IFNAME, altname);
    link_request(index, None).with_flagged_nest(IFLA_PROP_LIST, &names)
}
