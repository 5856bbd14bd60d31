//! Devices that come, change and go, as the kernel tells udev (NETLINK_KOBJECT_UEVENT; lib/kobject_uevent.c).
//!
//! There is no such event for the state of a port: that is told by the interface on it
//! ([`crate::route::LinkEvents`]).

use crate::netlink::{Listener, ListenerRead, NetlinkFamily};
use crate::{Error, Netns};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

/// The group of what the kernel itself says; udev repeats it, done with, in the second one.
const KERNEL_GROUP: u32 = 1;

/// The subsystems whose events can mean that the inventory has changed.
pub const SUBSYSTEMS: [&str; 5] = ["pci", "net", "infiniband", "infiniband_verbs", "infiniband_mad"];

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uevent {
    /// What happened: `add`, `remove`, `change`, `bind`, `unbind`, `move`.
    pub action: String,
    /// The device, by its path in sysfs: `/devices/pci0000:80/0000:80:02.0/0000:86:00.0`.
    pub path: String,
    /// The subsystem that it belongs to.
    pub subsystem: String,
    /// Everything else the kernel said: `PCI_SLOT_NAME`, `INTERFACE`, `SEQNUM`.
    pub properties: BTreeMap<String, String>,
}

/// What reading gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UeventItem {
    /// An event of one of the subsystems asked for.
    Event(Uevent),
    /// Events were lost; look at everything.
    Lost,
}

/// A socket that hears the kernel's events. Reading never blocks; poll its descriptor.
///
/// Events of interfaces reach the namespace that the interface is in, all others every namespace of the
/// initial user namespace (since 4.18).
#[derive(Debug)]
pub struct UeventSocket {
    listener: Listener,
    subsystems: Vec<String>,
}

impl UeventSocket {
    /// Those of `subsystems`, in the calling thread's network namespace.
    pub fn open(subsystems: &[&str]) -> Result<Self, Error> {
        Ok(Self {
            listener: Listener::join(NetlinkFamily::Uevent, KERNEL_GROUP)?,
            subsystems: subsystems.iter().map(|&name| name.to_owned()).collect(),
        })
    }

    /// The same in `netns`; the calling thread stays where it is.
    pub fn open_in(netns: &Netns, subsystems: &[&str]) -> Result<Self, Error> {
        netns.run(|| Self::open(subsystems))?
    }

    /// What was told since the last call, in order.
    pub fn read(&mut self) -> Result<Vec<UeventItem>, Error> {
        let mut told = Vec::new();
        loop {
            match self.listener.next()? {
                ListenerRead::Empty => return Ok(told),
                ListenerRead::Lost => told.push(UeventItem::Lost),
                ListenerRead::Datagram(datagram) => told.extend(
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

/// `add@/devices/…` and then `KEY=value`, each ended by a zero.
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

    /// What `udevadm monitor -k -p` shows of an adapter that is bound, as it is on the wire.
    const BOUND: &[u8] = b"bind@/devices/pci0000:80/0000:80:02.0/0000:86:00.0\0ACTION=bind\0\
        DEVPATH=/devices/pci0000:80/0000:80:02.0/0000:86:00.0\0SUBSYSTEM=pci\0DRIVER=mlx5_core\0\
        PCI_SLOT_NAME=0000:86:00.0\0SEQNUM=4711\0";

    #[test]
    fn an_event_is_read_whole() {
        let event = decode(BOUND).unwrap();
        assert_eq!((event.action.as_str(), event.subsystem.as_str()), ("bind", "pci"));
        assert_eq!(event.path, "/devices/pci0000:80/0000:80:02.0/0000:86:00.0");
        assert_eq!(event.properties["PCI_SLOT_NAME"], "0000:86:00.0");
    }

    #[test]
    fn what_is_not_the_kernels_is_not_an_event() {
        // udev's own messages start so, without an `@`.
        assert_eq!(decode(b"libudev\0\xfe\xed\xca\xfe"), None);
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"add@/devices/x\0ACTION=add\0"), None, "of no subsystem");
    }
}
