//! Families of netlink, and why a request to one of them did not succeed.

use crate::Error;
use netlink_packet_core::DecodeError;
use netlink_sys::protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_NETFILTER, NETLINK_RDMA, NETLINK_ROUTE};
use nix::errno::Errno;
use std::io;

/// The families that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Route,
    Rdma,
    Netfilter,
    Uevent,
}

impl Family {
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

    pub(crate) fn failed(self, doing: &'static str, source: io::Error) -> Error {
        let unknown = source.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32);
        match self {
            Self::Rdma if unknown => Error::NoRdma,
            _ => Error::Socket { doing, family: self.name(), source },
        }
    }
}

/// Why a request did not succeed, before it is known what it was about.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The kernel said no, perhaps with words.
    Kernel(Errno, Option<String>),
    Io(Family, io::Error),
    Decode(DecodeError),
}

impl Failure {
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(errno, _) => Some(*errno),
            Self::Io(..) | Self::Decode(_) => None,
        }
    }

    /// The error of a request that was to give an interface the name `name`. When the name is taken the
    /// kernel says EEXIST without words; when something else is in the way it uses words.
    pub(crate) fn about_name(self, doing: impl Into<String>, interface: &str, name: &str) -> Error {
        match self {
            Self::Kernel(Errno::EEXIST, None) => Error::NameTaken { interface: name.to_owned() },
            other => other.about(doing, interface),
        }
    }

    pub(crate) fn about(self, doing: impl Into<String>, interface: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::Refused { doing: doing.into(), interface: interface.into(), errno, message }
            }
            other => other.unspoken(interface),
        }
    }

    /// The error of a request about a device that is not an interface.
    pub(crate) fn about_device(self, doing: impl Into<String>, device: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::Device { doing: doing.into(), device: device.into(), errno, message }
            }
            other => other.unspoken(device),
        }
    }

    /// The error when the kernel did not get to answer.
    fn unspoken(self, about: impl Into<String>) -> Error {
        match self {
            Self::Kernel(errno, message) => {
                Error::Device { doing: "ask about".to_owned(), device: about.into(), errno, message }
            }
            Self::Io(family, source) => family.failed("use", source),
            Self::Decode(source) => Error::Undecodable { interface: about.into(), source },
        }
    }
}
