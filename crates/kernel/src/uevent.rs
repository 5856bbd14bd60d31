//! Kernel uevents, which report added, changed and removed devices (NETLINK_KOBJECT_UEVENT; lib/kobject_uevent.c).
//!
//! There is no uevent for the state of an RDMA port. The state is visible in the link events of the port's
//! interface ([`crate::rtnetlink::LinkEventSocket`]).

use crate::Error;
use crate::netlink::{Listener, NetlinkFamily};
use crate::watch::{EventSource, HardwareEvent, read_listener};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// Multicast group of the kernel's events. Group 2 carries the same events after udev has processed them.
const KERNEL_GROUP: u32 = 1;

/// Subsystems whose events can indicate a change of the hardware inventory.
pub const SUBSYSTEMS: [&str; 5] = ["pci", "net", "infiniband", "infiniband_verbs", "infiniband_mad"];

/// A socket that receives uevents. Reading does not block; poll its descriptor to wait for events.
///
/// Events of network interfaces are sent to the namespace of the interface, all others to every network namespace
/// of the initial user namespace (since 4.18).
#[derive(Debug)]
pub struct UeventSocket {
    listener: Listener,
    subsystems: Vec<String>,
}

impl UeventSocket {
    /// Receives events of `subsystems` in the network namespace of the calling thread.
    pub fn open(subsystems: &[&str]) -> Result<Self, Error> {
        Ok(Self {
            listener: Listener::join(NetlinkFamily::Uevent, KERNEL_GROUP)?,
            subsystems: subsystems.iter().map(|&name| name.to_owned()).collect(),
        })
    }
}

impl EventSource for UeventSocket {
    fn read(&mut self, events: &mut VecDeque<HardwareEvent>) -> Result<(), Error> {
        let subsystems = &self.subsystems;
        read_listener(&mut self.listener, events, |datagram| decode(datagram, subsystems))
    }
}

impl AsFd for UeventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Decodes a datagram: `add@/devices/…` and then `KEY=value` properties, each terminated by a zero byte. Returns
/// `None` if it has another form or is not about one of the subsystems.
fn decode(datagram: &[u8], subsystems: &[String]) -> Option<HardwareEvent> {
    let mut texts = datagram.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let head = texts.next()?;
    let (action, path) = head.split_once('@')?;
    let subsystem = texts.find_map(|text| text.strip_prefix("SUBSYSTEM=").map(str::to_owned))?;
    let (action, path) = (action.to_owned(), path.to_owned());
    subsystems.contains(&subsystem).then_some(HardwareEvent::Device { action, subsystem, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bind event of an adapter as `udevadm monitor -k -p` shows it, in wire format.
    const BOUND: &[u8] = b"bind@/devices/pci0000:80/0000:80:02.0/0000:86:00.0\0ACTION=bind\0\
        DEVPATH=/devices/pci0000:80/0000:80:02.0/0000:86:00.0\0SUBSYSTEM=pci\0DRIVER=mlx5_core\0\
        PCI_SLOT_NAME=0000:86:00.0\0SEQNUM=4711\0";

    #[test]
    fn uevent_is_decoded_completely() {
        let expected = HardwareEvent::Device {
            action: "bind".to_owned(),
            subsystem: "pci".to_owned(),
            path: "/devices/pci0000:80/0000:80:02.0/0000:86:00.0".to_owned(),
        };
        assert_eq!(decode(BOUND, &["pci".to_owned()]), Some(expected));
        assert_eq!(decode(BOUND, &["net".to_owned()]), None, "another subsystem");
    }

    #[test]
    fn messages_of_udev_are_ignored() {
        // udev's own messages start with `libudev`, without an `@`.
        assert_eq!(decode(b"libudev\0\xfe\xed\xca\xfe", &[]), None);
        assert_eq!(decode(b"", &[]), None);
        assert_eq!(decode(b"add@/devices/x\0ACTION=add\0", &[]), None, "without a subsystem");
    }
}
