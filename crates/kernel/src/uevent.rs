//! Kernel uevents, which report added, changed and removed devices (NETLINK_KOBJECT_UEVENT; lib/kobject_uevent.c).
//!
//! There is no uevent for the state of an RDMA port. The state is visible in the link events of the port's
//! interface ([`crate::rtnetlink::LinkEventSocket`]).

use crate::netlink::{Listener, ListenerRead, NetlinkFamily};
use crate::{Error, Netns};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

/// Multicast group of the kernel's events. Group 2 carries the same events after udev has processed them.
const KERNEL_GROUP: u32 = 1;

/// Subsystems whose events can indicate a change of the hardware inventory.
pub const SUBSYSTEMS: [&str; 5] = ["pci", "net", "infiniband", "infiniband_verbs", "infiniband_mad"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uevent {
    /// One of `add`, `remove`, `change`, `bind`, `unbind`, `move`.
    pub action: String,
    /// Path of the device in sysfs: `/devices/pci0000:80/0000:80:02.0/0000:86:00.0`.
    pub path: String,
    pub subsystem: String,
    /// All properties except the subsystem, such as `PCI_SLOT_NAME`, `INTERFACE` and `SEQNUM`, keyed by name.
    pub properties: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UeventItem {
    /// An event of one of the requested subsystems.
    Event(Uevent),
    /// Events were lost; read the complete state again.
    Lost,
}

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

    /// Receives events in `netns`; the calling thread does not change its namespace.
    pub fn open_in(netns: &Netns, subsystems: &[&str]) -> Result<Self, Error> {
        netns.run(|| Self::open(subsystems))?
    }

    /// Reads all available events in order.
    pub fn read(&mut self) -> Result<Vec<UeventItem>, Error> {
        let mut items = Vec::new();
        loop {
            match self.listener.next()? {
                ListenerRead::Empty => return Ok(items),
                ListenerRead::Lost => items.push(UeventItem::Lost),
                ListenerRead::Datagram(datagram) => items.extend(
                    decode(datagram)
                        .filter(|event| self.subsystems.contains(&event.subsystem))
                        .map(UeventItem::Event),
                ),
            }
        }
    }
}

impl AsFd for UeventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Decodes a datagram: `add@/devices/…` and then `KEY=value` properties, each terminated by a zero byte. Returns
/// `None` if it has another form or no subsystem.
fn decode(datagram: &[u8]) -> Option<Uevent> {
    let mut texts = datagram.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let head = texts.next()?;
    let (action, path) = head.split_once('@')?;
    let mut properties: BTreeMap<String, String> = texts
        .filter_map(|text| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect();
    let subsystem = properties.remove("SUBSYSTEM")?;
    Some(Uevent { action: action.to_owned(), path: path.to_owned(), subsystem, properties })
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
        let event = decode(BOUND).unwrap();
        assert_eq!((event.action.as_str(), event.subsystem.as_str()), ("bind", "pci"));
        assert_eq!(event.path, "/devices/pci0000:80/0000:80:02.0/0000:86:00.0");
        assert_eq!(event.properties["PCI_SLOT_NAME"], "0000:86:00.0");
    }

    #[test]
    fn messages_of_udev_are_ignored() {
        // udev's own messages start with `libudev`, without an `@`.
        assert_eq!(decode(b"libudev\0\xfe\xed\xca\xfe"), None);
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"add@/devices/x\0ACTION=add\0"), None, "without a subsystem");
    }
}
