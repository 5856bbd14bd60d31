//! Netlink families and request errors.

use crate::Error;
use netlink_packet_core::DecodeError;
use netlink_sys::protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_NETFILTER, NETLINK_RDMA, NETLINK_ROUTE};
use nix::errno::Errno;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetlinkFamily {
    Route,
    Rdma,
    Netfilter,
    Uevent,
}

impl NetlinkFamily {
    pub(crate) fn protocol(self) -> isize {
        match self {
            Self::Route => NETLINK_ROUTE,
            Self::Rdma => NETLINK_RDMA,
            Self::Netfilter => NETLINK_NETFILTER,
            Self::Uevent => NETLINK_KOBJECT_UEVENT,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Rdma => "RDMA",
            Self::Netfilter => "netfilter",
            Self::Uevent => "uevent",
        }
    }

    pub(crate) fn socket_error(self, doing: &'static str, source: io::Error) -> Error {
        let unknown = source.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32);
        match self {
            Self::Rdma if unknown => Error::NoRdma,
            _ => Error::Socket { doing, family: self.name(), source },
        }
    }
}

/// Why a request failed. The caller adds the interface or device with one of the `for_` methods.
#[derive(Debug)]
pub(crate) enum NetlinkError {
    /// The kernel returned an error, possibly with an explanation.
    Kernel(Errno, Option<String>),
    Io(NetlinkFamily, io::Error),
    Decode(DecodeError),
}

impl NetlinkError {
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(errno, _) => Some(*errno),
            Self::Io(..) | Self::Decode(_) => None,
        }
    }

    /// Converts the error of a request that sets the interface name `name`. If the name is taken, the kernel
    /// returns EEXIST without an explanation; for other conflicts it adds one.
    pub(crate) fn for_name(self, doing: impl Into<String>, interface: &str, name: &str) -> Error {
        match self {
            Self::Kernel(Errno::EEXIST, None) => Error::NameTaken { interface: name.to_owned() },
            other => other.for_interface(doing, interface),
        }
    }

    pub(crate) fn for_interface(self, doing: impl Into<String>, interface: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::InterfaceRequest { doing: doing.into(), interface: interface.into(), errno, message }
            }
            other => other.without_reply(interface),
        }
    }

    /// Converts the error of a request about a PCI function, a virtual function or an RDMA device.
    pub(crate) fn for_device(self, doing: impl Into<String>, device: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::DeviceRequest { doing: doing.into(), device: device.into(), errno, message }
            }
            other => other.without_reply(device),
        }
    }

    /// Converts an I/O or decoding error. The callers have already handled errors that the kernel returned.
    fn without_reply(self, about: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::DeviceRequest { doing: "query".to_owned(), device: about.into(), errno, message }
            }
            Self::Io(family, source) => family.socket_error("use", source),
            Self::Decode(source) => Error::Undecodable { interface: about.into(), source },
        }
    }
}
