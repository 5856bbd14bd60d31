//! Interface events (RTNLGRP_LINK of rtnetlink(7)).

use super::Link;
use crate::Error;
use crate::netlink::{Listener, NetlinkFamily, RawMessage};
use crate::watch::{EventSource, HardwareEvent, read_listener};
use netlink_packet_core::NetlinkBuffer;
use nix::libc::{RTM_DELLINK, RTM_NEWLINK};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// RTNLGRP_LINK of linux/rtnetlink.h, as a bit mask.
const RTNLGRP_LINK_MASK: u32 = 1;
/// Length of struct nlmsghdr.
const NLMSGHDR_LEN: usize = 16;

/// A socket that receives all interface events of a namespace. Reading does not block; poll its descriptor to
/// wait.
#[derive(Debug)]
pub struct LinkEventSocket {
    listener: Listener,
}

impl LinkEventSocket {
    /// Receives events of the namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { listener: Listener::join(NetlinkFamily::Route, RTNLGRP_LINK_MASK)? })
    }
}

impl EventSource for LinkEventSocket {
    fn read(&mut self, events: &mut VecDeque<HardwareEvent>) -> Result<(), Error> {
        read_listener(&mut self.listener, events, decode)
    }
}

impl AsFd for LinkEventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn decode(datagram: &[u8]) -> Vec<HardwareEvent> {
    let mut rest = datagram;
    let mut events = Vec::new();
    while let Ok(buffer) = NetlinkBuffer::new_checked(rest) {
        let length = buffer.length() as usize;
        let kind = buffer.message_type();
        let payload = rest.get(NLMSGHDR_LEN..length).unwrap_or_default().to_vec();
        // The first byte of struct ifinfomsg is the family. Events of bridge ports have the family AF_BRIDGE and
        // few attributes, so they are ignored.
        let complete = payload.first() == Some(&0);
        // RTM_DELLINK has the same format as RTM_NEWLINK, which the decoder expects.
        let link = || Link::decode(&RawMessage { kind: RTM_NEWLINK, payload }).map(Box::new);
        match kind {
            RTM_NEWLINK if complete => events.extend(link().map(HardwareEvent::LinkChanged)),
            RTM_DELLINK if complete => events.extend(link().map(HardwareEvent::LinkRemoved)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    events
}
