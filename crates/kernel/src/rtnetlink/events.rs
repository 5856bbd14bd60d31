//! What happens to interfaces, as the kernel tells it (RTNLGRP_LINK of rtnetlink(7)).

use super::Link;
use crate::netlink::{Listener, ListenerRead, NetlinkFamily, RawMessage};
use crate::{Error, Netns};
use netlink_packet_core::NetlinkBuffer;
use std::os::fd::{AsFd, BorrowedFd};

/// RTM_NEWLINK and RTM_DELLINK of linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// RTNLGRP_LINK of linux/rtnetlink.h, as a bit mask.
const RTNLGRP_LINK_MASK: u32 = 1;
/// struct nlmsghdr.
const NLMSGHDR_LEN: usize = 16;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// An interface came, or something about it changed: name, flags, carrier.
    Changed(Link),
    /// An interface went: removed, or moved to another namespace.
    Removed(Link),
    /// Events were lost; look at everything.
    Lost,
}

/// A socket that hears of every change to an interface of one namespace. Reading never blocks; poll its
/// descriptor.
#[derive(Debug)]
pub struct LinkEventSocket {
    listener: Listener,
}

impl LinkEventSocket {
    /// In the calling thread's namespace.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { listener: Listener::join(NetlinkFamily::Route, RTNLGRP_LINK_MASK)? })
    }

    /// In `netns`; the calling thread stays where it is.
    pub fn open_in(netns: &Netns) -> Result<Self, Error> {
        netns.run(Self::open)?
    }

    /// What happened since the last call, in order.
    pub fn read(&mut self) -> Result<Vec<LinkEvent>, Error> {
        let mut events = Vec::new();
        loop {
            match self.listener.next()? {
                ListenerRead::Empty => return Ok(events),
                ListenerRead::Lost => events.push(LinkEvent::Lost),
                ListenerRead::Datagram(datagram) => events.extend(decode(datagram)),
            }
        }
    }
}

impl AsFd for LinkEventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn decode(datagram: &[u8]) -> Vec<LinkEvent> {
    let mut rest = datagram;
    let mut events = Vec::new();
    while let Ok(buffer) = NetlinkBuffer::new_checked(rest) {
        let length = buffer.length() as usize;
        let kind = buffer.message_type();
        let payload = rest.get(NLMSGHDR_LEN..length).unwrap_or_default().to_vec();
        // struct ifinfomsg begins with the family. What a bridge says of its ports has its own, and little
        // else.
        let whole = payload.first() == Some(&0);
        // The reader of answers knows links by RTM_NEWLINK; a goodbye has the same form.
        let link = || Link::decode(&RawMessage { kind: RTM_NEWLINK, payload });
        match kind {
            RTM_NEWLINK if whole => events.extend(link().map(LinkEvent::Changed)),
            RTM_DELLINK if whole => events.extend(link().map(LinkEvent::Removed)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    events
}
