//! What the kernel would not do, and to which thing.

use ferroband_model::MalformedValue;
use netlink_packet_core::DecodeError;
use nix::errno::Errno;
use std::io;
use std::path::PathBuf;

/// A failure at the border with Linux.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing at the path of a network namespace. To a DEL this means: already gone.
    #[error("network namespace {} does not exist", path.display())]
    NoNetns {
        /// The path asked for.
        path: PathBuf,
    },
    /// There is something, but it is not a network namespace (after a reboot, often the plain file that the
    /// namespace was mounted on).
    #[error("{} is not a network namespace", path.display())]
    NotNetns {
        /// The path asked for.
        path: PathBuf,
    },
    /// A network namespace could not be opened, looked at or entered.
    #[error("cannot {doing} network namespace {}: {errno}", path.display())]
    Netns {
        /// What was tried.
        doing: &'static str,
        /// Where the namespace is.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The kernel refused a request about an interface.
    #[error("cannot {doing} interface {interface}: {errno}{}", explanation(message.as_deref()))]
    InterfaceRequest {
        /// What was tried: "rename", "add address 10.0.0.1/24 to".
        doing: String,
        /// The interface, by name where it has one.
        interface: String,
        /// The kernel's answer.
        errno: Errno,
        /// What the kernel said in words (extended acknowledgement).
        message: Option<String>,
    },
    /// The name that an interface was to have belongs to another one.
    #[error("the name {interface} is taken by another interface")]
    NameTaken {
        /// The name.
        interface: String,
    },
    /// A netlink socket did not work.
    #[error("cannot {doing} a {family} netlink socket")]
    Socket {
        /// What was tried.
        doing: &'static str,
        /// Of which family: "route", "RDMA", "uevent".
        family: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The kernel sent something that cannot be read.
    #[error("cannot read the kernel's answer about {interface}")]
    Undecodable {
        /// What was asked about.
        interface: String,
        /// Why.
        source: DecodeError,
    },
    /// The kernel has no RDMA at all: ib_core is neither built in nor loaded.
    #[error("this kernel has no RDMA")]
    NoRdma,
    /// There is no RDMA device of that name in the namespace.
    #[error("there is no RDMA device {device} in the namespace")]
    NoRdmaDevice {
        /// The name asked for.
        device: String,
    },
    /// The kernel refused a request about a PCI function, a virtual function or an RDMA device.
    #[error("cannot {doing} device {device}: {errno}{}", explanation(message.as_deref()))]
    DeviceRequest {
        /// What was tried: "have 4 virtual functions on", "unbind".
        doing: String,
        /// The device, by PCI address or name.
        device: String,
        /// The kernel's answer.
        errno: Errno,
        /// What the kernel said in words, if it did.
        message: Option<String>,
    },
    /// The parent of an IPoIB child is not there.
    #[error("interface {interface} does not exist")]
    NoParent {
        /// The name or altname asked for.
        interface: String,
    },
    /// The parent of an IPoIB child is there but of another kind.
    #[error("interface {interface} is of kind {kind}, not ipoib")]
    NotIpoib {
        /// The name or altname asked for.
        interface: String,
        /// What it is.
        kind: String,
    },
    /// The parent of an IPoIB child is there, but its port has no P_Key (0x8000 or nothing) yet.
    #[error("interface {interface} has no P_Key yet")]
    NoPKey {
        /// The name or altname asked for.
        interface: String,
    },
    /// A file or directory could not be read or changed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried: "read", "list".
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file's content has not the form it should.
    #[error("{} cannot be understood", path.display())]
    MalformedFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: MalformedValue,
    },
    /// A file's content is not the number that it should be.
    #[error("{} holds {text:?}, which is not a number", path.display())]
    NotANumber {
        /// Which file.
        path: PathBuf,
        /// What it holds.
        text: String,
    },
}

impl Error {
    /// The kernel's errno, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Netns { errno, .. }
            | Self::InterfaceRequest { errno, .. }
            | Self::DeviceRequest { errno, .. } => Some(*errno),
            Self::Socket { source, .. } | Self::File { source, .. } => {
                source.raw_os_error().map(Errno::from_raw)
            }
            Self::NoNetns { .. } => Some(Errno::ENOENT),
            Self::NoParent { .. } | Self::NoRdmaDevice { .. } => Some(Errno::ENODEV),
            Self::NoRdma => Some(Errno::EPROTONOSUPPORT),
            Self::NameTaken { .. } => Some(Errno::EEXIST),
            Self::NotNetns { .. }
            | Self::NotIpoib { .. }
            | Self::NoPKey { .. }
            | Self::Undecodable { .. }
            | Self::MalformedFile { .. }
            | Self::NotANumber { .. } => None,
        }
    }
}

pub(crate) fn explanation(message: Option<&str>) -> String {
    message.map(|message| format!(" ({message})")).unwrap_or_default()
}
