//! What happens to interfaces, as the kernel tells it (RTNLGRP_LINK of rtnetlink(7)).

use super::Link;
use crate::netlink::{Family, Heard, Listener, Message};
use crate::{Error, Netns};
use netlink_packet_core::NetlinkBuffer;
use std::os::fd::{AsFd, BorrowedFd};

/// RTM_NEWLINK and RTM_DELLINK of linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// RTNLGRP_LINK of linux/rtnetlink.h, as a bit mask.
const LINKS: u32 = 1;
/// struct nlmsghdr.
const HEADER: usize = 16;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// An interface came, or something about it changed: name, flags, carrier.
    Changed(Link),
    /// An interface went: removed, or moved to another namespace.
    Gone(Link),
    /// Events were lost; look at everything.
    Lost,
}

/// A socket that hears of every change to an interface of one namespace. Reading never blocks; poll its
/// descriptor.
#[derive(Debug)]
pub struct LinkEvents {
    listener: Listener,
}

impl LinkEvents {
    /// In the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        Ok(Self { listener: Listener::join(Family::Route, LINKS)? })
    }

    /// In `netns`; the calling thread stays where it is.
    pub fn inside(netns: &Netns) -> Result<Self, Error> {
        netns.run(Self::here)?
    }

    /// What happened since the last call, in order.
    pub fn read(&mut self) -> Result<Vec<LinkEvent>, Error> {
        let mut events = Vec::new();
        loop {
            match self.listener.next()? {
                Heard::Nothing => return Ok(events),
                Heard::Lost => events.push(LinkEvent::Lost),
                Heard::Told(datagram) => events.extend(decode(datagram)),
            }
        }
    }
}

impl AsFd for LinkEvents {
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
        let payload = rest.get(HEADER..length).unwrap_or_default().to_vec();
        // struct ifinfomsg begins with the family. What a bridge says of its ports has its own, and little
        // else.
        let whole = payload.first() == Some(&0);
        // The reader of answers knows links by RTM_NEWLINK; a goodbye has the same form.
        let link = || Link::decode(&Message { kind: RTM_NEWLINK, payload });
        match kind {
            RTM_NEWLINK if whole => events.extend(link().map(LinkEvent::Changed)),
            RTM_DELLINK if whole => events.extend(link().map(LinkEvent::Gone)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    events
}
